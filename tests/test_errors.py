"""Errors: what clients print of them is one sentence without a full stop."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ramet
from ramet.errors import Error, Invalid

SOURCES = sorted(Path(ramet.__file__).parent.rglob("*.py"))


def test_an_error_reads_as_message_and_details() -> None:
    assert str(Invalid("INVALID_NAME", "name is empty", "Send another name.")) == "name is empty: Send another name."
    assert str(Invalid("INVALID_NAME", "name is empty")) == "name is empty"


def test_a_message_that_quotes_another_one_loses_its_full_stop() -> None:
    error = Error("POOL_LOST", f"The pool is lost: {OSError('No such file.')}")
    assert error.message == "The pool is lost: No such file"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_message_in_the_sources_ends_with_a_full_stop(path: Path) -> None:
    for call in _errors(ast.parse(path.read_text())):
        for argument in call.args[1:2]:
            stopped = [ending for ending in _endings(argument) if ending.endswith((".", ":"))]
            assert not stopped, f"{path}:{call.lineno}"


def _errors(tree: ast.Module) -> Iterator[ast.Call]:
    """Return the calls whose first argument is a code: those make an error."""
    for node in ast.walk(tree):
        first = node.args[0] if isinstance(node, ast.Call) and node.args else None
        if isinstance(node, ast.Call) and isinstance(first, ast.Constant) and str(first.value).isupper():
            yield node


def _endings(argument: ast.expr) -> list[str]:
    match argument:
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[*_, ast.Constant(value=str(text))]):
            return [text]
        case ast.IfExp(body=one, orelse=other):
            return [*_endings(one), *_endings(other)]
        case _:
            return []
