"""Statistics are collected of all that can be read, also when the server is lost, and one that is stopped has none."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import processes_in
from ramet.backends.local.server.analyze import collect
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.errors import Unavailable
from tests.backends.local.hosts import boot, elsewhere, new_server, restart

LOST = "the server, or the connection to it, was lost during ANALYZE"


@pytest.fixture(name="server")
def _server(instances: Instances) -> Iterator[Server]:
    made = new_server(instances)
    boot(instances, made)
    yield made
    instances.remove(made.service_id, 10)


@pytest.fixture(name="paths")
def _paths(instances: Instances, server: Server) -> ServicePaths:
    return instances.paths(server.service_id)


def run(paths: ServicePaths, *statements: str, database: str = "postgres") -> None:
    with connections.connect(paths, database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


class Stopping(Allowance):
    """Stops the server before a table is analyzed."""

    def plain(self, paths: ServicePaths, connection: Connection) -> AbstractContextManager[None]:
        """Allow nothing any more."""
        assert postgres.stop(paths, 10)
        return super().plain(paths, connection)


@dataclass
class Killing(Allowance):
    """Kills what `victim` says before each of the first `most` tables whose indexes have expressions is analyzed."""

    most: int = 1
    victim: Callable[[ServicePaths, Connection], int] = lambda _, connection: connection.info.backend_pid
    killed: list[int] = field(default_factory=list)

    @contextmanager
    def statement(self, paths: ServicePaths, connection: Connection, path: str) -> Iterator[None]:
        """Kill first."""
        if len(self.killed) < self.most:
            self.killed.append(self.victim(paths, connection))
            os.kill(self.killed[-1], signal.SIGKILL)
        with super().statement(paths, connection, path):
            yield


@dataclass
class Acting(Allowance):
    """Does the next of `acts` before each table whose indexes have expressions is analyzed."""

    acts: list[Callable[[Connection], object]] = field(default_factory=list)

    @contextmanager
    def statement(self, paths: ServicePaths, connection: Connection, path: str) -> Iterator[None]:
        """Act first."""
        if self.acts:
            self.acts.pop(0)(connection)
        with super().statement(paths, connection, path):
            yield


def make_tables(paths: ServicePaths, *names: str, database: str = "postgres") -> None:
    for name in names:
        made = f"CREATE TABLE public.{name} AS SELECT 'x' AS word", f"CREATE INDEX ON public.{name} (lower(word))"
        run(paths, *made, database=database)


def analyzed(paths: ServicePaths, database: str = "postgres") -> list[Any]:
    with connections.connect(paths, database) as connection:
        found = connection.execute("SELECT tablename FROM pg_stats WHERE schemaname = 'public' AND attname = 'word'")
        return sorted(name for (name,) in found)


def test_a_table_whose_analyze_crashes_the_server_does_so_once(paths: ServicePaths) -> None:
    make_tables(paths, "first", "second", "third")
    killing = Killing()
    assert collect(paths, killing) == f"collected, except for postgres.public.first: {LOST}"
    assert analyzed(paths) == ["second", "third"]
    assert len(killing.killed) == 1


def test_the_second_table_whose_analyze_crashes_the_server_is_the_last_one(paths: ServicePaths) -> None:
    run(paths, "CREATE DATABASE zeta")
    make_tables(paths, "first", "second", "third", "fourth")
    killing = Killing(most=9)
    left = "not tried, as the server was lost"
    assert collect(paths, killing) == (
        f"collected, except for postgres.public.first: {LOST}; postgres.public.second: {LOST};"
        f" postgres.public.third and 1 more: {left}; zeta.*: {left}"
    )
    assert len(killing.killed) == 2


def test_a_server_that_is_killed_and_started_again_loses_one_table(
    instances: Instances, server: Server, paths: ServicePaths
) -> None:
    make_tables(paths, "first", "second")

    def all_at_once(paths: ServicePaths, connection: Connection) -> int:
        os.kill(postgres.running(paths) or 0, signal.SIGKILL)
        return connection.info.backend_pid

    killing = Killing(victim=all_at_once)
    with ThreadPoolExecutor() as pool:
        collecting = pool.submit(collect, paths, killing)
        eventually(lambda: bool(killing.killed) and not processes_in(paths.data))
        restart(instances, server)
        assert collecting.result() == f"collected, except for postgres.public.first: {LOST}"
    assert analyzed(paths) == ["second"]


def test_a_server_that_cannot_be_reached_for_a_moment_is_waited_for(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = next(paths.sockets.glob(".s.PGSQL.*[0-9]"))
    away = socket.with_name("away")
    connect, refused = connections.connect, []

    @contextmanager
    def connect_later(*args: Any) -> Iterator[Connection]:
        try:
            with connect(*args) as connection:
                yield connection
        except Unavailable as error:
            refused.append(error)
            away.rename(socket)
            raise

    monkeypatch.setattr(connections, "connect", connect_later)
    socket.rename(away)
    assert collect(paths, Allowance()) == "collected"
    assert len(refused) == 1


def restart_when_refused(monkeypatch: pytest.MonkeyPatch, instances: Instances, server: Server) -> None:
    connect = connections.connect

    @contextmanager
    def connect_later(*args: Any) -> Iterator[Connection]:
        try:
            with connect(*args) as connection:
                yield connection
        except Unavailable:
            restart(instances, server)
            raise

    monkeypatch.setattr(connections, "connect", connect_later)


def test_a_server_that_is_restarted_in_order_loses_one_table(
    instances: Instances, server: Server, paths: ServicePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pod, where another process restarts it."""
    make_tables(paths, "first", "second", "third")
    restart_when_refused(monkeypatch, instances, server)
    acting = Acting(acts=[lambda _: postgres.stop(paths, 10)])
    assert collect(elsewhere(paths, tmp_path), acting) == f"collected, except for postgres.public.first: {LOST}"
    assert analyzed(paths) == ["second", "third"]


def test_a_server_that_is_restarted_between_two_databases_loses_no_table(
    instances: Instances, server: Server, paths: ServicePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(paths, "CREATE DATABASE zeta")
    make_tables(paths, "first", database="zeta")
    restart_when_refused(monkeypatch, instances, server)
    listed = connections.databases

    def stop_then(connection: Connection) -> list[connections.Database]:
        found = listed(connection)
        assert postgres.stop(paths, 10)
        return found

    monkeypatch.setattr(connections, "databases", stop_then)
    assert collect(elsewhere(paths, tmp_path), Allowance()) == "collected"
    assert analyzed(paths, "zeta") == ["first"]


def test_a_service_that_is_removed_is_not_waited_for(paths: ServicePaths) -> None:
    make_tables(paths, "first", "second")

    def remove(paths: ServicePaths, connection: Connection) -> int:
        paths.data.rename(paths.data.with_name("removed"))
        return connection.info.backend_pid

    with pytest.raises(Unavailable):
        collect(paths, Killing(victim=remove))
    paths.data.with_name("removed").rename(paths.data)


def test_a_server_that_is_stopped_has_no_result(paths: ServicePaths) -> None:
    with pytest.raises(Unavailable):
        collect(paths, Stopping())


def test_a_server_that_is_stopped_after_it_was_lost_has_no_result(paths: ServicePaths) -> None:
    make_tables(paths, "first", "second")
    crash = lambda connection: os.kill(connection.info.backend_pid, signal.SIGKILL)  # noqa: E731
    with pytest.raises(Unavailable):
        collect(paths, Acting(acts=[crash, lambda _: postgres.stop(paths, 10)]))


def test_a_database_that_cannot_be_entered_hinders_no_other_one(paths: ServicePaths) -> None:
    run(paths, "CREATE DATABASE alpha", "CREATE DATABASE zeta")
    run(paths, "CREATE TABLE public.there ()", database="zeta")
    run(paths, "BEGIN", "ALTER DATABASE alpha RENAME TO x", "PREPARE TRANSACTION 'p'", database="zeta")
    ended = collect(paths, Allowance())
    assert ended.startswith("collected, except for alpha.*")
    assert "zeta" not in ended


def test_a_server_that_answers_with_another_error_is_not_waited_for(paths: ServicePaths) -> None:
    def enter() -> None:
        entered.append(1)
        raise (
            psycopg.errors.InternalError_("invalid page") if len(entered) == 1 else AssertionError("it was asked again")
        )

    entered: list[int] = []
    assert collect(paths, Allowance(), enter) == "collected"


def test_a_server_that_does_not_run_has_no_result(instances: Instances) -> None:
    with pytest.raises(Unavailable):
        collect(instances.paths("nowhere"), Allowance())
