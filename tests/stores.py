"""The databases that stores are tested on, as fixtures: import them into a conftest."""

import functools
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from ramet.ids import new_id
from ramet.store.database import Store
from ramet.store.tables import duty, operation
from tests.servers import BIN, database, postgresql

_COMPILED: dict[object, object] = {}
_DIALECT: list[sa.Dialect] = []  # the first one: a part of the keys of what is compiled


@functools.cache
def _migrated() -> bytes:
    """Return the file of an empty SQLite store: to run the migrations for every test takes longer than most tests."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ramet.db"
        Store.open(f"sqlite:///{path}").close()
        return path.read_bytes()


def libpq(url: str) -> str:
    """Return the URL of a database on PostgreSQL as libpq reads it."""
    return url.replace("+psycopg", "")


def dumped(url: str) -> str:
    """Return a database on PostgreSQL as SQL."""
    command = [str(BIN / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", libpq(url)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in text.splitlines() if line and not line.startswith(("--", "\\", "SET "))) + "\n"


@functools.cache
def _statements(server_url: str) -> str:
    """Return what makes an empty store of an empty database on PostgreSQL."""
    with database(server_url, new_id()) as url:
        Store.open(url).close()
        return dumped(url)


def _fill(url: str) -> None:
    with psycopg.connect(libpq(url)) as connection:
        found = connection.execute("SELECT to_regclass('alembic_version')").fetchone()
        if found == (None,):
            connection.execute(_statements(url.rpartition("/")[0] + "/postgres").encode())


def open_store(url: str) -> Store:
    """Open a store; one that does not exist, or is an empty database, is made without running the migrations again."""
    if not url.startswith("sqlite"):
        _fill(url)
        return Store.open(url)
    path = Path(url.removeprefix("sqlite:///"))
    if path.exists():
        return Store.open(url)
    path.write_bytes(_migrated())
    path.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:  # to see that no migration is missing takes as long as to open it
        patch.setattr("ramet.store.database.upgrade", lambda _: None)
        store = Store.open(url)
    _share_statements(store.engine)
    return store


def _share_statements(engine: sa.Engine) -> None:
    """Let all SQLite stores of this process compile a statement once: that takes longer than to run it."""
    if not _DIALECT:
        _DIALECT.append(engine.dialect)
    engine.dialect = _DIALECT[0]
    engine.update_execution_options(compiled_cache=_COMPILED)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """One server for all tests of the session."""
    with postgresql() as server_url:
        yield server_url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database, SQLite and PostgreSQL in turn."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield f"sqlite:///{tmp_path}/ramet.db"
        else:
            yield stack.enter_context(database(request.getfixturevalue("postgresql_server"), new_id()))


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """The URL of an empty database on PostgreSQL."""
    with database(postgresql_server, new_id()) as made:
        yield made


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty store, on SQLite and PostgreSQL in turn."""
    opened = open_store(url)
    yield opened
    opened.close()


def step_clock_back(store: Store, seconds: float) -> None:
    """Leave the rows as they are when the clock has stepped back: what was written is now in the future."""
    with store.write() as tx:
        later = (operation.c.run_at, operation.c.run_set_at, operation.c.step_started_at)
        tx.execute(operation.update().values({column: column + seconds for column in later}))
        tx.execute(duty.update().values(next_at=duty.c.next_at + seconds))
