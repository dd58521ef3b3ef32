"""Sphinx makes the documentation site from the Markdown pages of the repository: `script/docs`.

The pages contain nothing of Sphinx. Its navigation is made from the lists of links in docs/README.md.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[2]
_MAP = "docs/README"

project = "Ramet"
version = release = re.findall(r'__version__ = "(.+)"', (_ROOT / "src/ramet/__init__.py").read_text())[0]
root_doc = _MAP
include_patterns = ["*.md", "docs/*.md", "docs/decisions/*.md"]
exclude_patterns = [".*", "build", "tests"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
# Markdown has no language of its own for a template, a proxy's configuration or a diagram.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "Ramet"
html_favicon = "../../src/ramet/console/static/ramet.svg"
html_extra_path = ["root"]
html_show_sphinx = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Add the navigation to the page that it is read from."""
    app.connect("source-read", _add_navigation)


def _add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    if name == _MAP:
        sections = source[0].split("\n## ")[1:]
        source[0] += "".join(_tree(section.partition("\n")[0], section) for section in sections)
    elif name == "docs/decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def _tree(caption: str, section: str) -> str:
    """Return the part of the navigation that a section of the map lists: the first link of each item."""
    links = re.findall(r"^- \[(.+?)\]\(([^)#]+)\.md(?:#\S*)?\)", section, re.MULTILINE)
    entries = "\n".join(f"{title} <{_page(path)}>" for title, path in links)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def _page(path: str) -> str:
    return f"/{path[3:]}" if path.startswith("../") else path
