"""Stores on SQLite and on PostgreSQL, with a table to count effects in."""

from collections.abc import Iterator

import pytest

from ramet.operations import transitions
from ramet.store.database import Store
from tests.operations.effects import Host, make_table
from tests.stores import open_store, postgresql_server, postgresql_url, url

__all__ = ["host", "postgresql_server", "postgresql_url", "store", "swift", "url"]


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    make_table(opened)
    yield opened
    opened.close()


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again after a millisecond, where the pause is not what is tested."""
    monkeypatch.setattr(transitions, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(transitions, "_LONGEST_PAUSE_SECONDS", 0.002)
