"""What docstrings, comments, tests and documents cite is there: files, and rules by their number."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "compatibility.md"
_CITED = re.compile(r"(?<![\w/:.*<-])(?:\.\.?/|/)?[\w{][\w./{},-]*\.(?:md|py|sh)\b(?![(=*>])")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_ROOMS = ("src", "tests", "docs", "harness", "bench", "prove", "demo", "script")
_WRITTEN = "CHANGELOG.md"  # it tells of what was


@cache
def _files() -> tuple[str, ...]:
    """Return the paths of the files that belong to the project."""
    found = [
        *ROOT.glob("*.*"),
        *(path for room in _ROOMS for path in (ROOT / room).rglob("*") if "node_modules" not in path.parts),
    ]
    names = (path.relative_to(ROOT).as_posix() for path in found if path.is_file())
    return tuple(name for name in names if "__pycache__" not in name)


def _prose(name: str) -> str:
    """Return what a file tells its readers: a document without its blocks of code, comments and docstrings of code."""
    text = (ROOT / name).read_text()
    if name.endswith(".md"):
        return re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    if name.endswith(".py"):
        return "\n".join((*_docstrings(text), *_comments(text)))
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))


def _docstrings(text: str) -> Iterator[str]:
    """Yield each string that is a statement by itself."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _unfolded(cited: str) -> list[str]:
    """Return the paths that a path with one pair of braces means."""
    folded = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", cited)
    return [cited] if folded is None else [f"{folded[1]}{one}{folded[3]}" for one in folded[2].split(",")]


def _is_there(cited: str, citing: str) -> bool:
    beside = (ROOT / citing).parent / cited
    path = cited.removeprefix("./")
    return beside.exists() or any(name == path or name.endswith(f"/{path}") for name in _files())


def _citations(name: str) -> list[str]:
    prose = _prose(name)
    found = [*_CITED.findall(prose), *(_LINK.findall(prose) if name.endswith(".md") else [])]
    return [path for cited in found for path in _unfolded(cited)]


def _readable() -> list[str]:
    kinds = (".py", ".md", ".sh")
    return [name for name in _files() if name != _WRITTEN and (name.endswith(kinds) or name.startswith("script/"))]


def test_every_file_that_is_cited_exists() -> None:
    missing = {name: [cited for cited in _citations(name) if not _is_there(cited, name)] for name in _readable()}
    assert {name: cited for name, cited in missing.items() if cited} == {}


@pytest.mark.parametrize(
    ("cited", "there"),
    [
        ("docs/hazards.md", True),
        ("hazards.md", True),
        ("backends/local/restore/{gaps,capture}.py", True),
        ("nowhere.md", False),
        ("backends/local/restore/{gaps,nowhere}.py", False),
    ],
)
def test_a_citation_is_looked_up_in_the_project(cited: str, there: bool) -> None:
    found = _CITED.findall(f"See {cited}, 3.")
    assert found == [cited]
    assert all(_is_there(path, "README.md") for path in _unfolded(cited)) == there


def test_the_rules_are_numbered_from_1_to_30() -> None:
    assert [int(number) for number in re.findall(r"^(\d+)\. ", RULES.read_text(), re.MULTILINE)] == list(range(1, 31))


def test_every_test_of_a_rule_names_one_that_is_written_down() -> None:
    tests = [ROOT / name for name in _files() if name.startswith("tests/") and name.endswith(".py")]
    cited = {
        int(number)
        for path in tests
        for name in re.findall(r"def test_rules?_((?:\d+_(?:and_)?)+)", path.read_text())
        for number in re.findall(r"\d+", name)
    }
    assert cited
    assert cited <= set(range(1, 31))
