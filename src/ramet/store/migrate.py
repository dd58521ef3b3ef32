"""Bring a database's schema up to date, one process at a time."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from ramet.errors import WrongState

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 7206355  # any number, the same in every process


def upgrade(engine: sa.Engine) -> None:
    """Run the migrations that are missing. Takes the writers' lock, so that two processes do not run them at once.

    Raises WrongState for a database that a later release has migrated.
    """
    with engine.connect() as connection, connection.begin():
        current = current_revision(connection)
    if current == head_revision():
        return
    if current is not None and current not in _revisions():
        raise WrongState(
            "STORE_TOO_NEW",
            f"The store has revision {current} of its tables, and this release of Ramet knows revisions up to "
            f"{head_revision()}: Install the release that last ran here",
        )
    writing = engine.connect().execution_options(writes=True)
    with writing as connection, _without_references(connection), connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        _check_references(connection)


@contextmanager
def _without_references(connection: sa.Connection) -> Iterator[None]:
    """Let SQLite rebuild a table that others refer to: foreign keys are checked again after the migrations.

    PRAGMA foreign_keys has no effect inside a transaction (sqlite.org/foreignkeys.html, 2).
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    raw = connection.connection.cursor()
    raw.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        raw.execute("PRAGMA foreign_keys = ON")
        raw.close()


def _check_references(connection: sa.Connection) -> None:
    if connection.dialect.name != "sqlite":
        return
    broken = connection.execute(sa.text("PRAGMA foreign_key_check")).all()
    if broken:
        raise AssertionError(f"BUG: a migration left rows that refer to nothing: {broken[:5]}")


def configuration() -> Config:
    """Return Alembic's configuration for the migrations of this package."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def demand_current(engine: sa.Engine) -> None:
    """Raise WrongState unless the database is empty, or has the tables of this release."""
    with engine.connect() as connection, connection.begin():
        current = current_revision(connection)
    if current not in (None, head_revision()) and current in _revisions():
        raise WrongState(
            "STORE_TOO_OLD",
            f"The store has revision {current} of its tables, and this release of Ramet needs {head_revision()}: "
            "Stop the earlier release and start 'ramet up' of this one, which migrates the store",
        )


@functools.cache
def _scripts() -> ScriptDirectory:
    """Return the migrations of this package; to load them takes some ten milliseconds."""
    return ScriptDirectory(str(_MIGRATIONS))


def _revisions() -> set[str]:
    return {script.revision for script in _scripts().walk_revisions()}


def head_revision() -> str | None:
    """Return the newest revision that this code knows."""
    return _scripts().get_current_head()


def current_revision(connection: sa.Connection) -> str | None:
    """Return the revision of a database; None when it is empty."""
    return MigrationContext.configure(connection).get_current_revision()
