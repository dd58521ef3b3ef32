"""A job on a server is run by one process of Ramet at a time, over a real server."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.waiting import eventually
from ramet.backends.kubernetes import alone, restore
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.copies import KubernetesCopies
from ramet.backends.kubernetes.restore import KubernetesRestore
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.errors import Unavailable
from tests.backends.kubernetes.servers import SHARED
from tests.backends.local.hosts import boot, elsewhere, make_servers, new_server

# ANALYZE and amcheck compute the expression of the index, and so wait as long as somebody has the advisory lock.
_SLOW = """
CREATE FUNCTION public.wait(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    WHILE EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND objid = {key}) LOOP
        PERFORM pg_catalog.pg_sleep(0.05);
    END LOOP;
    RETURN n;
END $$;
CREATE TABLE public.slow AS SELECT 1 AS n;
CREATE INDEX ON public.slow (public.wait(n));
"""
# ANALYZE of the table crashes the server, and a row in a file says how often it did.
_CRASHING = r"""
CREATE FUNCTION public.crash() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN COPY (SELECT 1) TO PROGRAM 'echo 1 >> crashes; kill -9 $PPID'; END $$;
CREATE FUNCTION public.crashing(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    PERFORM public.crash() FROM pg_catalog.pg_stat_activity
    WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND pg_catalog.starts_with(query, 'ANALYZE');
    RETURN n;
END $$;
CREATE TABLE public.bad AS SELECT 1 AS n;
CREATE INDEX ON public.bad (public.crashing(n))
"""
_ANALYZING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'ANALYZE public.slow'"
_INDEX = "SELECT indexrelid::text FROM pg_index WHERE indrelid = 'public.slow'::regclass"
_CHECKING = """
SELECT count(*) FROM pg_stat_activity
WHERE state = 'active' AND datname = %s AND starts_with(query, 'SELECT pg_catalog.bt_index_parent_check(' || %s)
"""
_SHOWN = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def paths() -> Iterator[ServicePaths]:
    with make_servers() as instances:
        server = new_server(instances)
        boot(instances, server)
        with connections.connect(instances.paths(server.service_id)) as connection:
            connection.execute(_SLOW.format(key=1).encode())
        yield instances.paths(server.service_id)
        instances.remove(server.service_id, 10)


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PAUSE_SECONDS", "OUTCOME_SECONDS"):
        monkeypatch.setattr(alone, name, 0.1)


def process_of(server: ServicePaths, directory: Path) -> KubernetesRestore:
    """Return what another process has: a socket and locks of its own, to the same server."""
    own = elsewhere(server, directory)
    tunnels = SimpleNamespace(root=lambda: directory)
    place: Any = SimpleNamespace(paths=lambda _: own, check_runs=lambda _: None, tunnels=tunnels)
    return KubernetesRestore(cast(Place, place), KubernetesCopies(place))


@pytest.mark.usefixtures("looks_often")
def test_statistics_are_collected_by_one_process_and_no_table_is_reported_as_left_out(paths: ServicePaths) -> None:
    with TemporaryDirectory() as root, connections.connect(paths) as connection:
        first, second = (process_of(paths, Path(root, name)) for name in ("a", "b"))
        connection.execute("SELECT pg_advisory_lock(1)")
        eventually(lambda: first.analyze(SHARED, 0.1) is None and connections.value(connection, _ANALYZING) == 1)
        assert second.analyze(SHARED, 30.0) is None
        assert connections.value(connection, _ANALYZING) == 1
        connection.execute("SELECT pg_advisory_unlock(1)")
        assert first.analyze(SHARED, 30.0) == "collected"
        eventually(lambda: second.analyze(SHARED, 0.5) == "collected")


def test_a_process_that_does_not_run_a_job_enters_the_server_now_and_then(
    paths: ServicePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []
    connect = connections.connect

    def note(own: ServicePaths, *rest: str) -> AbstractContextManager[connections.Connection]:
        entered.append(own.root.name)
        return connect(own, *rest)

    monkeypatch.setattr(connections, "connect", note)
    with connect(paths) as connection:
        first, second = (process_of(paths, tmp_path / name) for name in ("a", "b"))
        connection.execute("SELECT pg_advisory_lock(1)")
        eventually(lambda: first.analyze(SHARED, 0.1) is None and connections.value(connection, _ANALYZING) == 1)
        for _ in range(5):
            assert second.analyze(SHARED, 0.2) is None
        assert entered.count("b") == 1
        connection.execute("SELECT pg_advisory_unlock(1)")
        assert first.analyze(SHARED, 30.0) == "collected"


def test_a_job_that_another_process_runs_takes_no_slot(
    paths: ServicePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "_NEW", "0 s")
    monkeypatch.setattr(restore, "cpu_count", lambda: 1)
    with connections.connect(paths) as connection:
        first, second = (process_of(paths, tmp_path / name) for name in ("a", "b"))
        connection.execute("SELECT pg_advisory_lock(1)")
        eventually(lambda: first.analyze(SHARED, 0.1) is None and connections.value(connection, _ANALYZING) == 1)
        assert second.analyze(SHARED, 30.0) is None
        other = elsewhere(paths, tmp_path / "c")
        assert second.jobs.jobs.run(other, "another", lambda: "done", 30.0) == "done"
        connection.execute("SELECT pg_advisory_unlock(1)")
        assert first.analyze(SHARED, 30.0) == "collected"


def test_a_job_is_left_to_the_process_that_has_its_result(
    paths: ServicePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "_NEW", "0 s")
    with connections.connect(paths) as connection:
        first, second = (process_of(paths, tmp_path / name) for name in ("a", "b"))
        connection.execute("SELECT pg_advisory_lock(1)")
        eventually(lambda: first.analyze(SHARED, 0.1) is None and connections.value(connection, _ANALYZING) == 1)
        assert second.analyze(SHARED, 30.0) is None
        connection.execute("SELECT pg_advisory_unlock(1)")
        eventually(lambda: connections.value(connection, _SHOWN, "ramet statistics") == 0)
        for _ in range(5):
            assert second.analyze(SHARED, 2.0) is None
        assert first.analyze(SHARED, 30.0) == "collected"


@pytest.mark.usefixtures("looks_often")  # also while the server is lost
def test_a_table_that_crashes_the_server_does_so_once_in_all_processes(paths: ServicePaths, tmp_path: Path) -> None:
    with connections.connect(paths) as connection:
        connection.execute(_CRASHING)
    processes = [process_of(paths, tmp_path / name) for name in ("a", "b")]
    ended: list[str] = []

    def has_ended() -> bool:
        for process in processes:
            with suppress(Unavailable):
                ended.extend(filter(None, [process.analyze(SHARED, 0.1)]))
        return bool(ended)

    eventually(has_ended, seconds=60.0)
    assert (paths.data / "crashes").read_text().split() == ["1"]
    assert "except for postgres.public.bad: the server" in ended[0]
    assert "slow" not in ended[0]


@pytest.mark.parametrize(("started", "waits"), [("- '1 s'", True), ("- '1 h'", False), ("+ '1 h'", False)])
def test_a_job_waits_for_a_server_that_has_just_started_also_after_its_clock_was_set_back(
    paths: ServicePaths, *, started: str, waits: bool
) -> None:
    start = f"clock_timestamp() {started}::interval"
    columns = "pid, usename, application_name, state, query, backend_type, backend_start"
    sessions = f"(VALUES (0, '', '', '', '', 'walwriter', {start})) AS one({columns})"
    with connections.connect(paths) as connection:
        query = alone._ALL_ARE_NEW.replace("pg_stat_activity", sessions)
        found = connections.value(connection, query, "5 s", "ramet", "ramet job", [])
    assert found is (True if waits else None)


def test_a_check_of_all_data_is_left_to_its_process_also_when_the_session_with_its_name_was_lost(
    paths: ServicePaths, tmp_path: Path
) -> None:
    """Its statement shows that it runs, and the name is shown again with the next database."""
    with connections.connect(paths) as connection:
        connection.execute("CREATE DATABASE zeta")
        with connections.connect(paths, "zeta") as zeta:
            zeta.execute(_SLOW.format(key=2).encode())
            later = partial(connections.value, connection, _CHECKING, "zeta", connections.value(zeta, _INDEX))
        checks = partial(connections.value, connection, _CHECKING, "postgres", connections.value(connection, _INDEX))
        shown = partial(connections.value, connection, _SHOWN, "ramet verify")
        connection.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")
        first, second = (process_of(paths, tmp_path / name) for name in ("a", "b"))
        eventually(lambda: first.verify_data(SHARED, 0.1) is None and checks() == 1)
        connections.value(connection, _SHOWN.replace("count(*)", "pg_terminate_backend(min(pid))"), "ramet verify")
        eventually(lambda: shown() == 0)
        assert second.verify_data(SHARED, 10.0) is None
        eventually(lambda: shown() == 0)
        connection.execute("SELECT pg_advisory_unlock(1)")
        eventually(lambda: later() == 1)
        assert shown() == 1
        connection.execute("SELECT pg_advisory_unlock(2)")
        assert first.verify_data(SHARED, 60.0) == ""


@pytest.mark.usefixtures("looks_often")
def test_statistics_wait_for_what_a_process_that_has_ended_has_left(paths: ServicePaths) -> None:
    with TemporaryDirectory() as root, connections.connect(paths) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        with connections.connect(paths) as left:
            left.pgconn.send_query(b"ANALYZE public.slow")
            eventually(lambda: connections.value(connection, _ANALYZING) == 1)
            left.close()
        process = process_of(paths, Path(root, "a"))
        assert process.analyze(SHARED, 30.0) is None
        connection.execute("SELECT pg_advisory_unlock(1)")
        eventually(lambda: process.analyze(SHARED, 30.0) == "collected")
