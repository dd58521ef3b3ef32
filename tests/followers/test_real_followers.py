"""A standby of a real server: it follows, is forked in every way, and is promoted without a loss."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from harness.instance import connect
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.backends.local.sql.withheld_roles import HOST_ROLES
from ramet.client import ApiError, Client, ForkStrategy
from ramet.model.passwords import Secret
from tests.followers.conftest import PASSWORD, allow_replication, limit_slots, restart, start_again, url_of
from tests.sources import MAJORS, Source, open_source

_SECONDS = 300.0
_LEDGER = "SELECT n FROM ledger ORDER BY n"


@pytest.fixture(scope="module", params=[min(MAJORS), max(MAJORS)])
def shared(request: pytest.FixtureRequest) -> Iterator[Source]:
    """A source of the oldest and of the newest version here; each test adds rows, and leaves it running."""
    with open_source(request.param) as made:
        allow_replication(made)
        yield made


@pytest.fixture(scope="module")
def following(client: Client, shared: Source) -> Iterator[Service]:
    """A service that follows the shared source, with the password of its creation; deleted at the end."""
    made = follow(client, shared)
    yield made
    client.delete_service(made.service_id)


@pytest.fixture
def follower(client: Client, following: Service) -> Service:
    """The same, when nothing is known any more of what another test did to its source."""

    def is_well() -> bool:
        seen = client.get_service(following.service_id).metadata.following
        return seen is not None and seen.problem is None

    eventually(is_well, "no problem", 0.1)
    return following


def follow(client: Client, source: Source, **wanted: Any) -> Service:
    accepted = client.follow_database("shop", url_of(source), Secret(PASSWORD), **wanted)
    client.wait_ready(accepted.service_id, timeout_seconds=_SECONDS)
    return accepted


def fork(client: Client, parent: str, strategy: ForkStrategy, **wanted: Any) -> Service:
    accepted = client.fork_service(parent, strategy, **wanted)
    client.wait_ready(accepted.service_id, timeout_seconds=_SECONDS)
    return accepted


def ask(service: Service, query: str) -> list[tuple[Any, ...]]:
    with connect(service.endpoint.port, str(service.initial_password)) as connection:
        return connection.execute(query.encode()).fetchall()


def append(source: Source, *numbers: int) -> None:
    for number in numbers:
        source.run(f"INSERT INTO ledger VALUES ({number})")


def append_next(source: Source) -> int:
    """Append a row to the ledger; return its number, the next one."""
    with source.connect() as connection:
        row = connection.execute("INSERT INTO ledger SELECT max(n) + 1 FROM ledger RETURNING n").fetchone()
    assert row is not None
    return int(str(row[0]))


def shows(source_port: int, query: str) -> list[tuple[Any, ...]]:
    """Ask a standby as a role of the source, with the password that it has there."""
    with psycopg.connect(
        host="localhost", port=source_port, user="app", password="app", dbname="shop", connect_timeout=30
    ) as connection:
        return connection.execute(query.encode()).fetchall()


def test_a_standby_is_read_only_and_is_forked_as_of_now_a_snapshot_and_any_time(
    client: Client, shared: Source, follower: Service
) -> None:
    first = append_next(shared)
    eventually(lambda: (first,) in shows(follower.endpoint.port, _LEDGER), "the new row")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        shows(follower.endpoint.port, "CREATE TABLE one ()")

    now = fork(client, follower.service_id, ForkStrategy.NOW)
    assert ask(now, _LEDGER) == [(n,) for n in range(1, first + 1)]
    assert ask(now, "SELECT relowner::regrole::text FROM pg_class WHERE relname IN ('ledger', 'newest')") == [
        ("tsdbadmin",),
        ("tsdbadmin",),
    ]
    assert ask(now, "SELECT rolname FROM pg_roles WHERE rolsuper") == [("ramet",)]
    assert ask(now, "INSERT INTO ledger VALUES (-1) RETURNING n") == [(-1,)]

    second = append_next(shared)
    target = datetime.now(UTC)
    eventually(lambda: datetime.now(UTC) > target, "another moment")
    third = append_next(shared)
    past = fork(client, follower.service_id, ForkStrategy.PITR, target_time=target.isoformat())
    assert ask(past, _LEDGER) == [(n,) for n in range(1, second + 1)]

    eventually(lambda: (third,) in shows(follower.endpoint.port, _LEDGER), "the last row")
    last = fork(client, follower.service_id, ForkStrategy.LAST_SNAPSHOT)
    assert ask(last, _LEDGER) == [(n,) for n in range(1, third + 1)]
    again = fork(client, now.service_id, ForkStrategy.NOW)
    assert ask(again, "SELECT count(*) FROM ledger") == [(first + 1,)]
    assert (-1,) not in shows(follower.endpoint.port, _LEDGER)


def is_refused(follower: Service, user: str) -> bool:
    """Tell whether a standby does not even ask a role for its password."""
    try:
        psycopg.connect(host="localhost", port=follower.endpoint.port, user=user, password="app", dbname="shop").close()
    except psycopg.OperationalError as error:
        return "pg_hba.conf rejects" in str(error)
    return False


def test_a_superuser_of_the_source_cannot_log_in_to_the_standby(shared: Source, follower: Service) -> None:
    shared.run("CREATE ROLE second_superuser SUPERUSER LOGIN PASSWORD 'app'")
    eventually(lambda: is_refused(follower, "second_superuser"), "the new superuser is kept out")
    assert is_refused(follower, "postgres")


@pytest.mark.parametrize("role", [*HOST_ROLES, "postgres"])
def test_a_role_of_the_source_that_reaches_its_host_cannot_log_in_to_the_standby(
    shared: Source, follower: Service, role: str
) -> None:
    member, group = f"member_{role[3:]}", f"group_{role[3:]}"
    shared.run(f"CREATE ROLE {group}; CREATE ROLE {member} NOINHERIT LOGIN PASSWORD 'app'")

    def is_admitted() -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(
                host="localhost", port=follower.endpoint.port, user=member, password="app", dbname="shop"
            ).close()
            return True
        return False

    eventually(is_admitted, "an ordinary role can log in")
    shared.run(f"GRANT {group} TO {member}; GRANT {role} TO {group}")
    eventually(lambda: is_refused(follower, member), "a role that reaches the host is kept out")
    shared.run(f"REVOKE {role} FROM {group}")
    eventually(is_admitted, "an ordinary role again")


@pytest.mark.parametrize("change", ["ALTER ROLE ordinary SUPERUSER", "GRANT pg_read_server_files TO ordinary"])
def test_a_session_of_a_role_ends_when_it_comes_to_reach_the_host(
    shared: Source, follower: Service, change: str
) -> None:
    shared.run("DROP ROLE IF EXISTS ordinary; CREATE ROLE ordinary LOGIN PASSWORD 'app'")
    sessions = list[psycopg.Connection[Any]]()

    def log_in() -> bool:
        with suppress(psycopg.OperationalError):
            sessions.append(
                psycopg.connect(
                    host="localhost", port=follower.endpoint.port, user="ordinary", password="app", dbname="shop"
                )
            )
        return bool(sessions)

    def has_ended() -> bool:
        with suppress(psycopg.OperationalError):
            sessions[0].execute("SELECT 1")
        return sessions[0].closed

    eventually(log_in, "an ordinary role can log in")
    assert not has_ended()
    shared.run(change)
    eventually(has_ended, "its session has ended")
    eventually(lambda: is_refused(follower, "ordinary"), "it is refused")


def test_what_needs_to_write_is_refused(client: Client, follower: Service) -> None:
    for act in (
        lambda: client.optimize_service(follower.service_id),
        lambda: client.update_password(follower.service_id, Secret("another one")),
        lambda: client.enable_pooler(follower.service_id),
        lambda: client.create_replica_set(follower.service_id, "reports", cpu_millis="500", memory_gbs="2"),
    ):
        with pytest.raises(ApiError) as refused:
            act()
        assert refused.value.code == "FOLLOWS_SOURCE"


def test_a_source_that_is_away_is_a_problem_until_it_is_back(client: Client, shared: Source, follower: Service) -> None:

    def seen() -> tuple[str | None, int | None]:
        following = client.get_service(follower.service_id).metadata.following
        assert following is not None
        return following.problem, following.lag_bytes

    shared.kill()
    eventually(lambda: seen()[0] is not None, "a problem")
    assert seen()[1] is None
    start_again(shared)
    eventually(lambda: seen() == (None, 0), "it follows again")
    number = append_next(shared)
    eventually(lambda: (number,) in shows(follower.endpoint.port, _LEDGER), "the new row")


def test_a_standby_gets_settings_as_large_as_those_of_its_source(
    client: Client, shared: Source, follower: Service
) -> None:
    restart(shared, max_connections="300", max_worker_processes="90")
    number = append_next(shared)
    query = f"SELECT current_setting('max_connections'), n FROM ({_LEDGER}) ledger WHERE n = {number}"

    def is_there() -> bool:
        try:
            return shows(follower.endpoint.port, query) == [("300", number)]
        except psycopg.OperationalError:  # it is being restarted
            return False

    eventually(is_there, "it is restarted, and replays what comes after that")


@dataclass
class Ledger:
    """Rows that an application appends, one transaction each: to the source, and then to the service."""

    source: Source
    service: Service
    acknowledged: list[int] = field(default_factory=list)
    ended_at: float = 0.0
    resumed_at: float | None = None

    def run(self) -> None:
        """Append rows to the source until it ends, then one row to the service as soon as that is possible."""
        with suppress(psycopg.Error), self.source.connect() as connection:
            while True:
                self._append(connection)
                self.ended_at = time.monotonic()
        while self.resumed_at is None and time.monotonic() < self.ended_at + _SECONDS:
            with (
                suppress(psycopg.Error),
                connect(self.service.endpoint.port, str(self.service.initial_password)) as made,
            ):
                self._append(made)
                self.resumed_at = time.monotonic()

    def _append(self, connection: "psycopg.Connection[Any]") -> None:
        number = 1000 + len(self.acknowledged)
        # A row whose acknowledgement was lost is there already.
        connection.execute("INSERT INTO ledger VALUES (%s) ON CONFLICT DO NOTHING", (number,))
        self.acknowledged.append(number)


@contextmanager
def ledger(source: Source, service: Service) -> Iterator[Ledger]:
    """Run a ledger; it has gone over to the service at the end."""
    made = Ledger(source, service)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    thread.join(_SECONDS)


def test_a_production_database_moves_without_a_lost_row(client: Client, source: Source) -> None:
    """The steps of docs/following.md, under a running ledger, with a slot of the service's own."""
    limit_slots(source)
    with source.connect() as connection:
        connection.execute("CREATE ROLE tsdbadmin")
        connection.execute("GRANT tsdbadmin TO app")
        made = follow(client, source, create_slot=True)
        connection.execute("CREATE DATABASE tsdb")
        is_refused_while_the_name_is_taken(client, source, made)
        connection.execute("DROP DATABASE tsdb")
    with ledger(source, made) as written:
        eventually(lambda: len(written.acknowledged) > 50, "the ledger")
        with source.connect() as connection:
            until = connection.execute("SELECT (pg_current_wal_flush_lsn() + 8388608)::text").fetchone()
        assert until is not None
        client.promote_service(made.service_id, wait_for_lsn=str(until[0]), drain=True)
        eventually(lambda: says(client, made, f"waiting for {until[0]}"), "the promotion waits for the LSN")
        with source.connect() as connection:
            connection.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 16 * 1024 * 1024))")
        eventually(lambda: says(client, made, "the source is running"), "the promotion waits for the source's end")
        source.process.send_signal(signal.SIGINT)
        source.process.wait(_SECONDS)
        client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    assert written.resumed_at is not None
    print(f"no write was answered for {written.resumed_at - written.ended_at:.2f} s")
    assert ask(made, "SELECT n FROM ledger WHERE n >= 1000 ORDER BY n") == [(n,) for n in written.acknowledged]
    assert ask(made, "SELECT twice(21)") == [(42,)]
    with psycopg.connect(host="localhost", port=made.endpoint.port, user="app", password="app", dbname="tsdb") as app:
        app.execute("INSERT INTO apps_own DEFAULT VALUES")
    assert client.get_service(made.service_id).metadata.following is None
    eventually(lambda: len(client.list_snapshots(made.service_id)) > 1, "its own snapshot")
    copy = fork(client, made.service_id, ForkStrategy.NOW)
    assert (1000,) in ask(copy, _LEDGER)
    client.delete_service(made.service_id)


def is_refused_while_the_name_is_taken(client: Client, source: Source, made: Service) -> None:
    """A promotion that could not end is not begun: the service follows as before."""
    with source.connect() as connection:
        position = str(connection.execute("SELECT pg_current_wal_insert_lsn()").fetchall()[0][0])
    client.promote_service(made.service_id, wait_for_lsn=position)

    def errors() -> list[str]:
        return [str(one.error) for one in client.list_operations(service_id=made.service_id).operations]

    eventually(lambda: any("There is a database tsdb beside" in one for one in errors()), "the refusal")
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    assert client.get_service(made.service_id).metadata.following is not None


def says(client: Client, service: Service, text: str) -> bool:
    """Tell whether an operation on a service says this of its progress."""
    return any(text in one.progress for one in client.list_operations(service_id=service.service_id).operations)
