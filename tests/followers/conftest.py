"""A Ramet and sources for tests of services that follow them."""

import os
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from harness.instance import running_instance
from harness.waiting import eventually
from ramet.client import Client
from tests.sources import MAJORS, Source, open_source

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
def client() -> Iterator[Client]:
    """A client of one running Ramet."""
    with running_instance() as made, made.client() as opened:
        yield opened


@pytest.fixture(params=[min(MAJORS), max(MAJORS)])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    """A source of the oldest and of the newest version here, which a role may stream from."""
    with open_source(request.param) as made:
        allow_replication(made)
        yield made


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
    eventually(lambda: _answers(source), "the source")


def _answers(source: Source) -> bool:
    try:
        source.connect("postgres").close()
    except psycopg.OperationalError:
        return False
    return True
