"""Fixtures for tests that need a database with real data: a fork for each process of tests, a database for each test.

`ramet_fork` is a fork of the service that the setting `ramet_parent` names. `ramet_database` is a copy of its database,
which PostgreSQL makes with the fork's own as a template, so that no test sees what another one wrote. With xdist each
worker has a fork.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:  # pytest loads this module in every project where Ramet is installed: it must cost nothing
    from ramet.kits.throwaway import Throwaway

_SETTING = "ramet_parent"


@dataclass(frozen=True)
class Database:
    """A database of one test: its connection string with the password, and the name of the database."""

    uri: str
    name: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that names the parent."""
    parser.addini(_SETTING, "The service of Ramet that the fixture ramet_fork forks: its name or its id.")
    parser.getgroup("ramet").addoption("--ramet-parent", metavar="SERVICE", help=f"Overrides {_SETTING}.")


@pytest.fixture(scope="session")
def ramet_fork(pytestconfig: pytest.Config) -> Iterator["Throwaway"]:
    """A fork of the newest state of `ramet_parent`, for all tests of this process.

    Until it is deleted, the environment has no variable with which libpq would connect elsewhere.
    """
    from ramet.cli.connection import LEADS_ELSEWHERE
    from ramet.cli.ui.options import find_parent, open_client
    from ramet.kits.throwaway import throwaway_fork

    parent = pytestconfig.getoption("--ramet-parent") or pytestconfig.getini(_SETTING)
    if not parent:
        raise pytest.UsageError(f"ramet_fork needs a service to fork: set {_SETTING}, or give --ramet-parent SERVICE.")
    with (
        open_client(None) as client,
        throwaway_fork(client, find_parent(client, parent), labels={"run-by": "pytest"}) as fork,
        pytest.MonkeyPatch.context() as environ,
    ):
        for name in LEADS_ELSEWHERE:
            environ.delenv(name, raising=False)
        yield fork


@pytest.fixture
def ramet_database(ramet_fork: "Throwaway") -> Iterator[Database]:
    """A database with the data of the fork's own, for one test. The fork's own database must have no sessions."""
    import psycopg
    from psycopg import sql

    from ramet.endpoints import DATABASE

    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(ramet_fork.uri_of("postgres"), autocommit=True) as admin:
        copied, copy = sql.Identifier(DATABASE), sql.Identifier(name)
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(copy, copied))
        yield Database(ramet_fork.uri_of(name), name)
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(copy))
