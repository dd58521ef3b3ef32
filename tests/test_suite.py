"""What holds for the files of the suite themselves."""

import ast
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_CLOCKS = frozenset({"monotonic", "perf_counter", "process_time", "thread_time", "time_ns", "monotonic_ns"})


def _reads_clock(node: ast.AST) -> bool:
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    return any(isinstance(one.func, ast.Attribute) and one.func.attr in _CLOCKS for one in calls)


def _elapsed_times(function: ast.AST) -> set[str]:
    """Return the names that a function gives to differences of two readings of a clock."""
    assigned = [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
    spans = [one for one in assigned if _is_elapsed(one.value, set())]
    return {name.id for one in spans for name in one.targets if isinstance(name, ast.Name)}


def _is_elapsed(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _reads_clock(node)


def speed_limits(text: str) -> list[int]:
    """Return the lines that assert that something took less than some time."""
    tree = ast.parse(text)
    names = _elapsed_times(tree)
    asserted = [one.test for one in ast.walk(tree) if isinstance(one, ast.Assert)]
    compared = [one for test in asserted for one in ast.walk(test) if isinstance(one, ast.Compare)]
    return [one.lineno for one in compared if isinstance(one.ops[0], ast.Lt | ast.LtE) and _is_elapsed(one.left, names)]


def test_no_test_asserts_how_long_something_took() -> None:
    """The outcome of a test must not depend on the load of the machine; speed belongs to bench/."""
    found = {str(path): speed_limits(path.read_text()) for path in sorted(_TESTS.rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "begun = time.monotonic()\nact()\nassert time.monotonic() - begun < 5",
        "seconds = time.perf_counter() - begun\nassert seconds <= 2, 'too slow'",
    ],
)
def test_a_speed_limit_is_found(text: str) -> None:
    assert speed_limits(f"import time\n{text}\n")
