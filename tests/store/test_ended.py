"""Rows of services that ended long ago are removed, unless something needs them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.model.environment import Environment
from ramet.model.keys import ApiKey
from ramet.model.login import Login
from ramet.model.replica_set import Node, ReplicaSet
from ramet.model.service import Origin, Service
from ramet.model.size import Size
from ramet.store import ended, idempotency, keys, logins, operations, replica_sets, services, snapshots
from ramet.store.database import Store
from ramet.store.services import LATEST_FORKS
from ramet.store.tables import operation
from tests.store.values import NOW, a_project, a_service, a_snapshot

_BEFORE = NOW + timedelta(days=10)


def _ended_service(tx: sa.Connection, at: Any = NOW, **columns: Any) -> Service:
    made = a_service(tx, a_project(tx), **columns)
    services.update_service(tx, made.id, deleted_at=at)
    return made


def _removed(store: Store) -> list[str]:
    with store.write() as tx:
        found = ended.unneeded_services(tx, _BEFORE, 20)
        assert ended.remove_services(tx, _BEFORE, found) == len(found)
        assert all(services.get_service(tx, each) is None for each in found)
    return found


def _fork_of(parent: Service, strategy: str = "NOW") -> Origin:
    return Origin(parent.project_id, parent.id, parent.name, strategy=strategy)


def _with_operation(tx: sa.Connection, gone: Service) -> None:
    operations.submit(tx, "delete", "destroy", gone.id, {})


def _with_request(tx: sa.Connection, gone: Service) -> None:
    idempotency.insert(tx, gone.project_id, "key", "body", gone.id, NOW)


def _with_snapshot(tx: sa.Connection, gone: Service) -> None:
    snapshots.insert_snapshot(tx, a_snapshot(gone))


def _with_set(tx: sa.Connection, gone: Service) -> None:
    replica_sets.insert_set(tx, _a_set(gone))


def _with_login(tx: sa.Connection, gone: Service) -> None:
    keys.insert_key(tx, ApiKey("RK1", gone.project_id, "ci", "digest", NOW))
    logins.insert_login(tx, Login("one", gone.id, "RK1", read_only=True, created_at=NOW, expires_at=NOW))


def _with_hold(tx: sa.Connection, gone: Service) -> None:
    holder = operations.submit(tx, "snapshot", "take", "another", {})
    services.add_hold(tx, gone.id, holder)


def _in_archive(tx: sa.Connection, gone: Service) -> None:
    services.update_service(tx, gone.id, archive_from=NOW)


def _recovered(tx: sa.Connection, gone: Service) -> None:
    services.update_service(tx, gone.id, recovered=True)


def _with_fork(tx: sa.Connection, gone: Service) -> None:
    a_service(tx, a_project(tx), port=20001, origin=_fork_of(gone))


def _claimed(tx: sa.Connection, gone: Service) -> None:
    services.update_service(tx, gone.id, operation_id="another")


def _a_set(of: Service) -> ReplicaSet:
    return ReplicaSet(
        id="sabcdefghi",
        project_id=of.project_id,
        service_id=of.id,
        name="reports",
        environment=Environment.DEV,
        size=Size(500, 2),
        nodes=(Node("nabcdefghi", 20002),),
        host="localhost",
        port=20003,
        created_at=NOW,
    )


def test_services_that_were_deleted_or_failed_before_a_time_are_removed(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        deleted, failed, late, lives = (a_service(tx, project, port=20000 + number) for number in range(4))
        services.update_service(tx, deleted.id, deleted_at=NOW)
        services.update_service(tx, failed.id, failed_at=NOW)
        services.update_service(tx, late.id, deleted_at=_BEFORE)
        assert len(ended.unneeded_services(tx, _BEFORE, 1)) == 1
    assert sorted(_removed(store)) == sorted([deleted.id, failed.id])
    with store.read() as tx:
        assert all(services.get_service(tx, each.id) is not None for each in (late, lives))


@pytest.mark.parametrize(
    "needed",
    [
        _with_operation, _with_request, _with_snapshot, _with_set, _with_login, _with_hold, _in_archive, _recovered,
        _with_fork, _claimed,
    ],
)  # fmt: skip
def test_a_service_stays_that_something_needs(store: Store, needed: Callable[[sa.Connection, Service], None]) -> None:
    with store.write() as tx:
        gone = _ended_service(tx)
        needed(tx, gone)
    assert _removed(store) == []
    with store.read() as tx:
        assert services.get_service(tx, gone.id) is not None


def test_a_parent_goes_after_its_forks(store: Store) -> None:
    with store.write() as tx:
        parent = _ended_service(tx)
        fork = _ended_service(tx, port=20001, origin=_fork_of(parent))
        services.update_service(tx, fork.id, ready_at=NOW)
    assert [_removed(store) for _ in range(3)] == [[fork.id], [parent.id], []]


@pytest.mark.parametrize(
    ("strategy", "unclaimed", "stays"), [("NOW", False, True), ("PITR", False, False), ("NOW", True, False)]
)
def test_the_latest_forks_as_of_now_stay_while_their_parent_exists(
    store: Store, strategy: str, unclaimed: bool, stays: bool
) -> None:
    with store.write() as tx:
        parent = a_service(tx, a_project(tx))
        forks = [
            _ended_service(tx, port=20001 + number, origin=_fork_of(parent, strategy), unclaimed=unclaimed)
            for number in range(LATEST_FORKS + 2)
        ]
        for number, fork in enumerate(forks):
            services.update_service(tx, fork.id, ready_at=NOW + timedelta(seconds=number))
        asked = [each.id for each in forks]
    assert sorted(_removed(store)) == sorted(asked[:2] if stays else asked)
    with store.write() as tx:
        services.update_service(tx, parent.id, deleted_at=NOW)
    assert sorted(_removed(store)) == sorted(asked[2:] if stays else [parent.id])


def test_the_report_of_an_upgrade_that_was_tried_stays_while_the_service_exists(store: Store) -> None:
    with store.write() as tx:
        parent = a_service(tx, a_project(tx))
        trial = _ended_service(tx, port=20001, origin=_fork_of(parent))
        services.update_service(tx, trial.id, report={"upgrade": {"to_version": "18.1"}})
    assert _removed(store) == []
    with store.read() as tx:
        assert [one.id for one in services.trials_of_upgrades(tx, parent.id)] == [trial.id]
    with store.write() as tx:
        services.update_service(tx, parent.id, deleted_at=NOW)
    assert _removed(store) == [trial.id]


def test_what_is_there_again_by_now_is_not_removed(store: Store) -> None:
    with store.write() as tx:
        gone = _ended_service(tx)
        found = ended.unneeded_services(tx, _BEFORE, 9)
        services.update_service(tx, gone.id, failed_at=None, deleted_at=None)
        assert (found, ended.remove_services(tx, _BEFORE, found)) == ([gone.id], 0)


def test_read_replica_sets_that_ended_are_removed_also_of_services_that_live(store: Store) -> None:
    with store.write() as tx:
        replica_sets.insert_set(tx, _a_set(a_service(tx, a_project(tx))))
        assert ended.remove_sets(tx, _BEFORE, 9) == 0
        replica_sets.update_set(tx, "sabcdefghi", deleted_at=NOW)
        made = operations.submit(tx, "delete_replica_set", "destroy", "sabcdefghi", {})
        assert ended.remove_sets(tx, _BEFORE, 9) == 0
        tx.execute(operation.delete().where(operation.c.id == made))
        assert ended.remove_sets(tx, _BEFORE, 9) == 1
        assert replica_sets.get_set(tx, "sabcdefghi") is None
