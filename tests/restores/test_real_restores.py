"""Restores in place of real servers, by the whole product."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from harness.instance import Instance, connect, running_instance
from harness.waiting import eventually
from ramet.api.schemas.restores import Restore
from ramet.api.schemas.services import Service
from ramet.client import ForkStrategy, Secret
from ramet.model.status import OperationStatus
from tests.backends.local.forgeries import forge_ends

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def ramet() -> Iterator[Instance]:
    """One running Ramet."""
    with running_instance(RAMET_FORK_REST_SECONDS="0") as made:
        yield made


def made(ramet: Instance, name: str) -> tuple[Service, str]:
    """Return a READY service with an empty ledger, and its password."""
    with ramet.client() as client:
        accepted = client.create_service(name)
        ready = client.wait_ready(accepted.service_id, timeout_seconds=240)
    password = str(accepted.initial_password)
    with connect(ready.endpoint.port, password) as connection:
        connection.execute("CREATE TABLE ledger (n int PRIMARY KEY)")
    return ready, password


def forked(ramet: Instance, parent_id: str, strategy: ForkStrategy, **fields: Any) -> tuple[Service, str]:
    with ramet.client() as client:
        accepted = client.fork_service(parent_id, strategy, **fields)
        return client.wait_ready(accepted.service_id, timeout_seconds=120), str(accepted.initial_password)


def add(service: Service, password: str, *numbers: int) -> datetime:
    """Commit rows one by one; return a time after them, and before whatever is committed next."""
    with connect(service.endpoint.port, password) as connection:
        for number in numbers:
            connection.execute("INSERT INTO ledger VALUES (%s)", (number,))
    found = datetime.now(UTC)
    while datetime.now(UTC) == found:
        continue
    return found


def rows(service: Service, password: str) -> list[int]:
    with connect(service.endpoint.port, password) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]


def ended(ramet: Instance, begun: Restore) -> Restore:
    with ramet.client() as client:
        found = client.wait_restored(begun.service_id, begun.restore_id, 120)
        assert found.status is OperationStatus.SUCCEEDED, found.error
        client.wait_ready(begun.service_id, timeout_seconds=60)
    return found


def restored(ramet: Instance, service: Service, **request: Any) -> Restore:
    with ramet.client() as client:
        return ended(ramet, client.restore_service(service.service_id, **request))


def test_a_restore_is_exact_its_undo_too_and_the_window_goes_on(ramet: Instance) -> None:
    service, password = made(ramet, "shop")
    first = add(service, password, 1, 2)
    second = add(service, password, 3)
    with connect(service.endpoint.port, password) as connection:
        forge_ends(connection)
    found = restored(ramet, service, target_time=first.isoformat())
    assert found.stopped_seconds is not None
    assert rows(service, password) == [1, 2]
    third = add(service, password, 4)
    add(service, password, 5)
    undone = restored(ramet, service, from_service_id=found.previous_service_id)
    assert rows(service, password) == [1, 2, 3]
    fourth = add(service, password, 6)
    add(service, password, 7)
    expected = {first: [1, 2], second: [1, 2, 3], third: [1, 2, 4], fourth: [1, 2, 3, 6]}
    for time_, wanted in expected.items():
        fork, own = forked(ramet, service.service_id, ForkStrategy.PITR, target_time=time_.isoformat())
        assert rows(fork, own) == wanted
    restored(ramet, service, target_time=third.isoformat(), keep_previous=False)
    assert rows(service, password) == [1, 2, 4]
    with ramet.client() as client:
        window = client.restore_window(service.service_id)
        assert window.gaps == []
        (replaced,) = [one for one in client.list_services() if one.service_id == undone.previous_service_id]
        client.start_service(replaced.service_id)
        running = client.wait_ready(replaced.service_id, timeout_seconds=60)
    assert rows(running, password) == [1, 2, 4, 5]
    ramet.await_idle()
    assert ramet.leftovers() == []


def test_what_was_archived_goes_on_after_many_restores(ramet: Instance) -> None:
    service, password = made(ramet, "archived")
    times = []
    for number in range(3):
        times.append((add(service, password, *range(10 * number, 10 * number + 3)), rows(service, password)))
        restored(ramet, service, target_time=times[0][0].isoformat(), keep_previous=False)
    for time_, wanted in times:
        fork, own = forked(ramet, service.service_id, ForkStrategy.PITR, target_time=time_.isoformat())
        assert rows(fork, own) == wanted
    with ramet.client() as client:
        snapshot = client.take_snapshot(service.service_id, "after")
        client.wait_checkpoint(service.service_id, snapshot.id)
        fork, own = forked(ramet, service.service_id, ForkStrategy.LAST_SNAPSHOT)
    assert rows(fork, own) == rows(service, password) == times[0][1]


def test_passwords_roles_and_sessions_of_now_stay(ramet: Instance) -> None:
    service, password = made(ramet, "roles")
    with connect(service.endpoint.port, password) as connection:
        connection.execute("CREATE ROLE app LOGIN PASSWORD 'first'")
        connection.execute("CREATE ROLE dropped LOGIN PASSWORD 'of-then'")
    before = add(service, password, 1)
    with connect(service.endpoint.port, password) as connection:
        connection.execute("ALTER ROLE app PASSWORD 'second'")
        connection.execute("DROP ROLE dropped")
    with ramet.client() as client:
        client.update_password(service.service_id, Secret("of-today-1"))
    restored(ramet, service, target_time=before.isoformat())
    for user, wanted in (("tsdbadmin", "of-today-1"), ("app", "second"), ("dropped", "of-then")):
        with connect(service.endpoint.port, wanted, user=user) as connection:
            assert connection.execute("SELECT current_user::text").fetchall() == [(user,)]


def test_a_fork_is_reset_and_rewound_without_a_trace(ramet: Instance) -> None:
    parent, password = made(ramet, "parent")
    add(parent, password, 1)
    fork, own = forked(ramet, parent.service_id, ForkStrategy.NOW)
    grandchild, grandpassword = forked(ramet, fork.service_id, ForkStrategy.NOW)
    with ramet.client() as client:
        taken = client.create_checkpoint(fork.service_id, "start")
        client.wait_checkpoint(fork.service_id, taken.id)
        for number in range(6):
            add(fork, own, 100 + number)
            ended(ramet, client.rewind_service(fork.service_id, "start"))
            assert rows(fork, own) == [1]
        add(parent, password, 2)
        ended(ramet, client.reset_service(fork.service_id))
        assert rows(fork, own) == [1, 2]
        report = client.fork_report(fork.service_id)
        assert report.strategy == ForkStrategy.NOW
        assert len([one for one in client.list_services() if one.service_id == fork.service_id]) == 1
        assert not [one for one in client.list_services() if "before-restore" in one.name and "parent" in one.name]
    assert rows(grandchild, grandpassword) == [1]
    ramet.await_idle()
    assert ramet.leftovers() == []
    assert not ramet.steps("status = 'FAILED'")


def test_a_rewound_service_is_forked_and_restored_from_its_first_snapshot(ramet: Instance) -> None:
    service, password = made(ramet, "rewound")
    add(service, password, 1)
    with ramet.client() as client:
        taken = client.create_checkpoint(service.service_id, "start")
        client.wait_checkpoint(service.service_id, taken.id)
        add(service, password, 2)
        ended(ramet, client.rewind_service(service.service_id, "start"))
    fork, own = forked(ramet, service.service_id, ForkStrategy.LAST_SNAPSHOT)
    assert rows(fork, own) == [1]
    target = add(service, password, 3).isoformat()
    add(service, password, 4)
    fork, own = forked(ramet, service.service_id, ForkStrategy.PITR, target_time=target)
    assert rows(fork, own) == [1, 3]
    restored(ramet, service, target_time=target)
    assert rows(service, password) == [1, 3]


def test_clients_of_the_transaction_pool_wait_and_replicas_follow(ramet: Instance) -> None:
    service, password = made(ramet, "pooled")
    with ramet.client() as client:
        client.enable_pooler(service.service_id)
        client.create_replica_set(service.service_id, "reports", nodes=1, cpu_millis=500, memory_gbs=2)

        def has_all() -> bool:
            found = client.get_service(service.service_id)
            sets = found.read_replica_sets or []
            return found.connection_pooler is not None and bool(sets) and sets[0].status == "active"

        eventually(has_all)
        ready = client.get_service(service.service_id)
    assert ready.connection_pooler is not None
    before = add(service, password, 1)
    add(service, password, 2)
    pool = ready.connection_pooler.endpoint.port
    with connect(pool, password, dbname="tsdb_transaction") as pooled:
        pooled.prepare_threshold = None
        assert pooled.execute("SELECT count(*) FROM ledger").fetchall() == [(2,)]
        with ramet.client() as client:
            begun = client.restore_service(service.service_id, target_time=before.isoformat())
        deadline = time.monotonic() + 60
        counts = {2}
        while 1 not in counts and time.monotonic() < deadline:
            counts.add(pooled.execute("SELECT count(*) FROM ledger").fetchall()[0][0])
        assert counts == {1, 2}
        ended(ramet, begun)

    def replica_follows() -> bool:
        with ramet.client() as client:
            (found,) = client.list_replica_sets(service.service_id)
        if found.status != "active":
            return False
        with connect(found.endpoint.port, password) as connection:
            return connection.execute("SELECT count(*) FROM ledger").fetchall() == [(1,)]

    eventually(replica_follows)
    ramet.await_idle()
    assert ramet.leftovers() == []
