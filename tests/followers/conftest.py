"""A Ramet and sources for tests of services that follow them."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.instance import running_instance
from harness.waiting import BOUND_SECONDS, eventually
from prove.ground import Ground, open_ground
from ramet.client import Client
from tests.sources import MAJORS, Source, answers, open_source

REPLICATOR, PASSWORD = "replicator", "a passwörd: with \\ and 'quotes'"
_SCHEMA = f"""
CREATE ROLE {REPLICATOR} LOGIN REPLICATION PASSWORD '{PASSWORD.replace("'", "''")}';
CREATE ROLE app LOGIN PASSWORD 'app';
CREATE TABLE ledger (n bigint PRIMARY KEY, at timestamptz DEFAULT clock_timestamp());
CREATE VIEW newest AS SELECT max(n) FROM ledger;
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT 2 * n';
CREATE TABLE apps_own (a serial PRIMARY KEY);
ALTER TABLE apps_own OWNER TO app;
GRANT SELECT ON ledger TO app;
INSERT INTO ledger SELECT g FROM generate_series(1, 100) g
"""


@pytest.fixture(scope="module")
def archives() -> Iterator[Path]:
    """The directory with the WAL archives of sources, which every system user may enter."""
    with tempfile.TemporaryDirectory(prefix="ramet-archives-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def client(archives: Path) -> Iterator[Client]:
    """A client of one running Ramet."""
    with running_instance(RAMET_SOURCE_ARCHIVES=str(archives)) as made, made.client() as opened:
        yield opened


@pytest.fixture
def ground() -> Iterator[Ground]:
    """The control plane and real servers, in one process."""
    with open_ground(None, snapshot_seconds=3600.0) as made:
        yield made


@pytest.fixture(params=[min(MAJORS), max(MAJORS)])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    """A source of the oldest and of the newest version here, which a role may stream from."""
    with open_source(request.param) as made:
        allow_replication(made)
        yield made


@pytest.fixture
def newest_source() -> Iterator[Source]:
    """A source of the newest version here, which a role may stream from."""
    with open_source(max(MAJORS)) as made:
        allow_replication(made)
        yield made


def restart(source: Source, **settings: str) -> None:
    """Restart a source in order, with further settings."""
    source.process.send_signal(signal.SIGINT)
    source.process.wait(BOUND_SECONDS)
    arguments = source.process.args
    assert isinstance(arguments, list)
    added = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    source.process.args = [*arguments, *added]
    start_again(source)


def remove_wal(source: Source) -> None:
    """Let a source remove all WAL that a standby could still need."""
    query = "SELECT count(*) FROM pg_ls_waldir() WHERE length(name) = 24 AND name < pg_walfile_name(%s)"
    with source.connect() as connection:
        begin = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert begin is not None

        def is_removed() -> bool:
            connection.execute("SELECT pg_logical_emit_message(false, 'test', 'x')")
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
            return connection.execute(query, (begin[0],)).fetchone() == (0,)

        eventually(is_removed, "the WAL is removed")


def limit_slots(source: Source) -> None:
    """Limit what the slots of a source keep."""
    source.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'")
    source.run("SELECT pg_reload_conf()")


def allow_replication(source: Source) -> None:
    """Fill the database of a source, and let a role stream from it."""
    hba = source.directory / "data" / "pg_hba.conf"
    kind = "hostssl" if source.installation.has_tls else "host"
    hba.write_text(f"{hba.read_text()}{kind} replication all all scram-sha-256\n")
    source.run("SELECT pg_reload_conf()")
    source.run(_SCHEMA)


def url_of(source: Source, database: str = "shop") -> str:
    """Return the address of a source for a standby: with TLS where its PostgreSQL has that."""
    if source.installation.has_tls:
        return source.url(database, REPLICATOR)
    return f"postgresql://{REPLICATOR}@localhost:{source.own_port}/{database}?sslmode=disable"


def start_again(source: Source) -> None:
    """Start the server of a source that was stopped or killed."""
    user = "nobody" if os.geteuid() == 0 else None
    source.process = subprocess.Popen(source.process.args, user=user, cwd=source.directory, stderr=subprocess.DEVNULL)
    eventually(lambda: answers(source), "the source")
