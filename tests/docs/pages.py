"""The pages of the documentation as Markdown: their blocks of code, their links and their headings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
_MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """A block of code: its language ("" when it is only indented) and the line where it begins."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def pages() -> tuple[str, ...]:
    """Return the paths of all pages, as the site has them."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


@cache
def _tokens(page: str) -> list[Token]:
    return _MARKDOWN.parse((ROOT / page).read_text())


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of code of a page."""
    for token in _tokens(page):
        if token.type in ("fence", "code_block"):
            language = token.info.split()[0] if token.info.strip() else ""
            yield Block(page, (token.map or [0])[0] + 1, language, token.content)


def spans(page: str) -> Iterator[str]:
    """Yield what stands between single backquotes."""
    for token in _tokens(page):
        yield from (child.content for child in token.children or () if child.type == "code_inline")


def links(page: str) -> Iterator[str]:
    """Yield what a page links to, and the pictures that it shows."""
    for token in _tokens(page):
        for child in token.children or ():
            if target := child.attrGet("href") or child.attrGet("src"):
                yield str(target)


@cache
def anchors(page: str) -> frozenset[str]:
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    found: list[str] = []
    tokens = _tokens(page)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return frozenset(found)
