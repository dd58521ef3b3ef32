"""What holds for the files of the suite themselves."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SKIPPED

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


# A small suite that has the hook of this one, and no plugins.
_HOOKS = """
from tests import conftest
from tests.conftest import pytest_sessionfinish
conftest._MAY_SKIP = {may_skip}
"""
_PASSED, _FAILED = "def test_passed(): pass\n", "def test_failed(): assert False\n"
_SKIPPED = "import pytest\ndef test_skipped(): pytest.skip('needs something')\n"


@pytest.mark.parametrize(
    ("tests", "may_skip", "options", "status"),
    [
        (_PASSED, False, (), 0),
        (_SKIPPED, True, (), 0),
        (_SKIPPED, False, (), SKIPPED),
        (_SKIPPED + _FAILED, True, (), 1),
        (_SKIPPED + _FAILED, False, (), SKIPPED),
        (_FAILED + _PASSED, True, ("-x",), 2),
        (_FAILED + _PASSED, True, ("--maxfail=1",), 2),
        ("import nothing_of_this_name\n", False, (), 2),
    ],
)
def test_only_failed_tests_of_a_complete_run_give_the_status_1(
    tmp_path: Path, tests: str, may_skip: bool, options: tuple[str, ...], status: int
) -> None:
    (tmp_path / "conftest.py").write_text(_HOOKS.format(may_skip=may_skip))
    (tmp_path / "test_some.py").write_text(tests)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."]
    environment = {**os.environ, "PYTHONPATH": str(_TESTS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout


@pytest.mark.parametrize(
    ("statuses", "status"),
    [((0,), 0), ((1, 0), 0), ((1, 1), 1), ((2,), 2), ((5,), 5), ((SKIPPED,), SKIPPED), ((137,), 137)],
)
def test_only_a_run_with_the_status_1_is_repeated(tmp_path: Path, statuses: tuple[int, ...], status: int) -> None:
    """The function of script/test, with a pytest that ends with each of these statuses in turn."""
    _, begin, rest = (_TESTS.parent / "script/test").read_text().partition("run_tests() {\n")
    function = begin + rest[: rest.index("\n}\n") + 3]
    fake = f"files=() lane=() left=({' '.join(map(str, statuses))})\n"
    fake += 'pytest() { local now=${left[0]}; left=("${left[@]:1}"); return "$now"; }\n'
    words = ["bash", "-uc", f'{fake}{function}run_tests || status=$?; echo "${{#left[@]}} ${{status:-0}}"']
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {status}", done.stderr
