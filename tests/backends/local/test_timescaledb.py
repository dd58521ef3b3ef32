"""With TimescaleDB where it is installed, and with a stand-in: jobs, telemetry, restores and forks of hypertables."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.restore import secured_copy
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.image import why_impossible
from ramet.ids import new_id
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.service_type import ServiceType
from tests.backends.local import forks
from tests.backends.local.hosts import connect, new_server
from tests.backends.local.stand_in import copyable, installed_stand_in

KINDS = [pytest.param("real", marks=pytest.mark.timescaledb), *(["stand-in"] if copyable() else [])]
WORKS = "SELECT count(*) FROM works"
NO_WORKER = re.compile("failed to (start|launch)|out of background worker")
RESUME = "SELECT alter_job(job_id, scheduled => true) FROM timescaledb_information.jobs WHERE job_id >= 1000"


@dataclass(frozen=True)
class Series:
    """A service with a hypertable and a job that runs each second."""

    backend: LocalBackend
    server: Server
    password: Secret

    def run(self, *statements: str, **changes: str) -> list[tuple[object, ...]]:
        with connect(self.server, self.password, sslmode="prefer", **changes) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def works(self) -> int:
        return int(str(self.run(WORKS)[0][0]))


@pytest.fixture(scope="module", params=KINDS)
def usual_backend(request: pytest.FixtureRequest) -> Iterator[LocalBackend]:
    """A whole backend on a host with TimescaleDB, or with its stand-in."""
    driver = "copy" if why_impossible("xfs") else "reflink"
    with installed_stand_in() if request.param == "stand-in" else nullcontext(), forks.make_backend(driver) as made:
        yield made


@pytest.fixture
def series(backend: LocalBackend) -> Series:
    password = new_password()
    installation = backend.instances.installations.for_type(ServiceType.TIMESERIESDB)
    server = new_server(backend.instances, password, service_type=ServiceType.TIMESERIESDB, pg_major=installation.major)
    backend.servers.initialize(server)
    forks.run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    made = Series(backend, server, password)
    made.run(
        "CREATE TABLE points (at timestamptz NOT NULL, value float)",
        "SELECT create_hypertable('points', 'at')",
        "INSERT INTO points SELECT now() - n * interval '1 day', n FROM generate_series(1, 60) n",
        "CREATE TABLE works (at timestamptz DEFAULT now(), job int)",
        "CREATE PROCEDURE work(job_id int, config jsonb) LANGUAGE sql AS 'INSERT INTO works (job) VALUES (job_id)'",
        "SELECT add_job('work', '1 second')",
    )
    return made


def fork_of(series: Series, *, neutralize: bool) -> Series:
    password = new_password()
    server = replace(series.server, service_id=new_id(), port=free_port(), verifier=scram_verifier(password))
    forks.run_fork(series.backend, server, series.backend.restore.capture(server, Source(series.server)))
    series.backend.servers.secure(server, is_new=False, neutralize=neutralize)
    series.backend.servers.open(server)
    return Series(series.backend, server, password)


def test_jobs_run_in_a_fork_that_is_not_neutralized(series: Series) -> None:
    eventually(lambda: series.works() > 0)
    child = fork_of(series, neutralize=False)
    before = child.works()
    eventually(lambda: child.works() > before)


def test_a_job_of_a_quiet_fork_runs_when_one_statement_lets_it(series: Series) -> None:
    child = fork_of(series, neutralize=True)
    before = child.works()
    child.run(RESUME)
    eventually(lambda: child.works() > before)


def test_a_neutralized_fork_sends_no_telemetry_although_its_parent_does(series: Series) -> None:
    series.run("ALTER DATABASE tsdb SET timescaledb.telemetry_level = 'basic'")
    child = fork_of(series, neutralize=True)
    assert child.run("SHOW timescaledb.telemetry_level") == [("off",)]
    assert child.run("SELECT scheduled FROM timescaledb_information.jobs WHERE proc_name = 'policy_telemetry'") in (
        [],
        [(False,)],
    )


def test_fourteen_jobs_and_four_databases_have_their_workers(series: Series) -> None:
    for number in range(3):
        series.run(f"CREATE DATABASE more{number}")
        series.run("CREATE EXTENSION IF NOT EXISTS timescaledb", dbname=f"more{number}")
    series.run("SELECT add_job('work', '1 second') FROM generate_series(1, 13)")
    eventually(lambda: series.run("SELECT count(DISTINCT job) FROM works") == [(14,)])
    logs = forks.paths_of(series.backend, series.server).log.iterdir()
    assert not [line for log in logs for line in log.read_text().splitlines() if NO_WORKER.search(line)]


def test_the_admin_prepares_and_ends_a_restore(series: Series) -> None:
    series.run("SELECT timescaledb_pre_restore()")
    assert series.run("SHOW timescaledb.restoring") == [("on",)]
    series.run("SELECT timescaledb_post_restore()")
    assert series.run("SHOW timescaledb.restoring") == [("off",)]


def test_a_read_only_session_cannot_drop_chunks(series: Series) -> None:
    options = "-c tsdb_admin.read_only_connection=true -c default_transaction_read_only=on"
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        series.run("SELECT drop_chunks('points', now())", options=options)


def test_a_renewal_leaves_hypertables_writable(series: Series) -> None:
    eventually(lambda: series.backend.servers.refresh(series.server))
    series.run("INSERT INTO points VALUES (now() - interval '1 day', 0)")
    with connections.connect(forks.paths_of(series.backend, series.server), "tsdb") as platform:
        assert platform.execute("SELECT FROM pg_trigger WHERE tgname ~ '^ramet_'").fetchall() == []


def test_a_fork_that_was_secured_in_advance_stays_closed_until_its_second_start(series: Series) -> None:
    backend, snapshot_id = series.backend, forks.snapshot(series.backend, series.server)[0]
    eventually(lambda: backend.restore.prepare_snapshot(series.server, snapshot_id, 0.5, 1) is None)
    forked = replace(series.server, service_id=new_id(), port=free_port(), verifier=scram_verifier(new_password()))
    source = Source(series.server, False, snapshot_id, neutralize=True)
    forks.run_fork(backend, forked, backend.restore.capture(forked, source))
    if not backend.pool.driver.shares_blocks:
        return  # nothing is prepared there
    assert secured_copy.noted(forks.paths_of(backend, forked).root) is not None
    assert not backend.instances.is_open(forked)
    backend.servers.secure(forked, is_new=False, neutralize=True)
    assert not backend.instances.is_open(forked)
    backend.servers.open(forked)
    assert backend.instances.is_open(forked)
