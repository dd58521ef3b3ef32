"""Tells the tests that start servers or a browser from the fast ones, by what their code and their fixtures can reach.

A test that can reach one of `_STARTERS` gets the marker `servers`. One that starts a server all the same, by a way that
is not seen here, fails: so the fast lane, `-m "not servers"`, cannot become slow unnoticed.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

_STARTERS = frozenset(
    {
        "harness.instance.Instance",
        "playwright.sync_api.sync_playwright",
        "ramet.app.Runtime",
        "ramet.configured.local_backend",
        "ramet.backends.local.backend.open_backend",
        "ramet.backends.local.server.instances.Instances",
        "tests.servers.postgresql",
        "tests.sources.open_source",
    }
)
_PROGRAMS = frozenset({"initdb", "postgres", "pgbouncer"})
_ASKING = frozenset({"-C", "-V", "--version", "--describe-config"})
_OURS = ("tests", "harness", "prove", "bench", "demo")


def starts_servers(item: pytest.Item) -> bool:
    """Tell whether the code of a test, or of a fixture of it, can reach what starts a server."""
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public way
    functions = [definition.func for found in fixtures.values() for definition in found]
    return any(_reaches(function) for function in (getattr(item, "function", None), *functions) if function)


def parameters(table: Mapping[str, Callable[..., object]]) -> list[Any]:
    """Return the names in a table of functions as parameters of a fixture; those that start servers are marked."""
    return [
        pytest.param(name, marks=[pytest.mark.servers] if _reaches(function) else [])
        for name, function in table.items()
    ]


@functools.cache
def _reaches(function: Callable[..., object]) -> bool:
    seen: set[int] = set()
    waiting: list[object] = [inspect.unwrap(function)]
    while waiting:
        found = waiting.pop()
        if f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}" in _STARTERS:
            return True
        if id(found) not in seen:
            seen.add(id(found))
            waiting += _used_by(found)
    return False


def _used_by(found: object) -> list[object]:
    """Return what a function or a class of the tests names: functions, classes, and members of modules."""
    if not str(getattr(found, "__module__", "")).startswith(_OURS):
        return []
    if isinstance(found, type):
        members = [inspect.unwrap(one) for one in vars(found).values() if callable(one)]
        return [*members, *(one.fget for one in vars(found).values() if isinstance(one, property))]
    if not isinstance(found, FunctionType):
        return []
    used, names = [], set(_names(found.__code__))
    for value in (found.__globals__[name] for name in names if name in found.__globals__):
        members = [getattr(value, name, None) for name in names] if isinstance(value, ModuleType) else []
        used += [inspect.unwrap(one) if callable(one) else one for one in (value, *members)]
    return used


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Watch:
    """Fails fast tests that start a server."""

    def __init__(self) -> None:
        self.started: list[str] = []
        sys.addaudithook(self._hear)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Forget what earlier tests have started."""
        self.started.clear()
        return (yield)

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Fail what was taken for fast and is not."""
        if self.started and item.get_closest_marker("servers") is None:
            pytest.fail(f"it starts a server ({self.started[0]}), which tests/lanes.py does not see")

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            words = [str(word) for word in arguments[1]]
            if _PROGRAMS & {PurePath(word).name for word in words} and not _ASKING & set(words):
                self.started.append(" ".join(words)[:100])
