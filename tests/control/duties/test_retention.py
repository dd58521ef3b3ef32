"""What is removed because it is old: all of it, in parts between which others write."""

import itertools
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ramet.control.duties import retention
from ramet.control.operations import list_operations
from ramet.control.plane import Plane, utc_now
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, get_service_including_deleted
from ramet.errors import NotFound
from ramet.model.fork import ForkStrategy
from ramet.model.metrics import Sample, Usage
from ramet.store import batches, idempotency, metrics, operations
from ramet.store.database import Store
from ramet.store.tables import last_usage, metric_sample, operation, service
from tests.store.values import NOW, a_project, a_service
from tests.stores import open_store, postgresql_server, url
from tests.worlds import World

__all__ = ["postgresql_server", "url"]
_COUNT = 1200
_EVERY = timedelta(seconds=30)
_BEGIN = NOW.replace(minute=50, second=0, microsecond=0)


@pytest.fixture
def store(tmp_path: Any) -> Any:
    opened = open_store(f"sqlite:///{tmp_path}/ramet.db")
    with opened.write() as tx:
        project = a_project(tx)
        subject = a_service(tx, project).id
        for number in range(_COUNT):
            operations.submit(tx, "snapshot", "step", subject, {})
            idempotency.insert(tx, project.id, str(number), "", subject, NOW)
        tx.execute(operation.update().values(status="SUCCEEDED", finished_at=NOW))
    yield opened
    opened.close()


def _left(store: Store) -> tuple[int, int]:
    with store.read() as tx:
        operations_left = tx.scalar(sa.select(sa.func.count()).select_from(operation))
        return int(operations_left or 0), len(idempotency.list_requests(tx))


def _remove(store: Store, days: int = 31) -> None:
    plane = cast("Plane", SimpleNamespace(store=store))
    retention.remove_history(plane, NOW + timedelta(days=days), timedelta(days=30))


def test_all_that_is_old_is_removed_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_SECONDS", float("inf"))
    _remove(store)
    assert _left(store) == (0, 0)


def test_snapshots_on_schedule_are_removed_after_a_day_but_for_the_last_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SECONDS", float("inf"))
    with store.write() as tx:
        last = tx.scalar(sa.select(sa.func.min(operation.c.id))) or ""
        tx.execute(operation.update().values(created_at=NOW))
        tx.execute(operation.update().where(operation.c.id == last).values(created_at=NOW + _EVERY))
    for days, left in ((1, _COUNT), (2, 1)):
        _remove(store, days)
        assert _left(store) == (left, _COUNT)
    with store.read() as tx:
        assert operations.get(tx, last) is not None


def test_a_removal_that_takes_long_goes_on_the_next_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_SECONDS", -1.0)
    _remove(store)
    assert _left(store) == (700, 700)
    _remove(store)
    assert _left(store) == (200, 200)


def _services(store: Store) -> int:
    with store.read() as tx:
        return int(tx.scalar(sa.select(sa.func.count()).select_from(service)) or 0)


def test_services_that_ended_are_removed_in_parts_after_their_operations_and_requests(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.write() as tx:
        project = a_project(tx)
        for number in range(120):
            gone = a_service(tx, project, port=20001 + number).id
            idempotency.insert(tx, project.id, gone, "", gone, NOW)
            operations.submit(tx, "delete", "destroy", gone, {})
        tx.execute(operation.update().values(status="SUCCEEDED", finished_at=NOW))
        tx.execute(service.update().where(service.c.project_id == project.id).values(deleted_at=NOW))
    left = [_services(store)]
    store.recorders.append(lambda tx, _: left.append(tx.scalar(sa.select(sa.func.count()).select_from(service)) or 0))
    monkeypatch.setattr(batches, "_SECONDS", float("inf"))
    _remove(store)
    assert (left[0], left[-1]) == (121, 1)
    assert max(before - after for before, after in itertools.pairwise(left)) == 50


def test_forks_stay_as_long_as_they_are_counted(store: Store) -> None:
    plane = cast("Plane", SimpleNamespace(store=store))
    with store.write() as tx:
        tx.execute(service.update().values(deleted_at=NOW))
    for days, count in ((6, 1), (8, 0)):
        retention.remove_history(plane, NOW + timedelta(days=days), timedelta(days=1))
        assert _services(store) == count


def test_a_service_that_is_gone_as_long_as_the_history_was_never_there(world: World) -> None:
    parent, later = world.create(), utc_now() + timedelta(days=31)
    fork = world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    delete_service(world.plane, world.project.id, fork.id)
    world.worker.run_until_idle()
    assert list_operations(world.plane, world.project.id, fork.id).items != []
    retention.remove_history(world.plane, later, timedelta(days=30))
    for read in (get_service, get_service_including_deleted, list_operations):
        with pytest.raises(NotFound, match="no service with that id exists"):
            read(world.plane, world.project.id, fork.id)
    assert get_service(world.plane, world.project.id, parent.id) == parent


def _sampled(url: str) -> tuple[Store, list[str], str]:
    """Return a store with samples of two services and of one that is deleted: ten in each of 120 times ten minutes."""
    store = open_store(url)
    with store.write() as tx:
        project = a_project(tx)
        living = [a_service(tx, project, port=20000 + number).id for number in range(2)]
        gone = a_service(tx, project, port=20002, deleted_at=NOW).id
        tx.execute(service.update().where(service.c.id == gone).values(deleted_at=NOW))
        times = [_BEGIN + number // 10 * timedelta(minutes=10) + number % 10 * _EVERY for number in range(_COUNT)]
        for subject in (*living, gone):
            tx.execute(metric_sample.insert(), [{"subject": subject, "at": at, "measured": {}} for at in times])
            metrics.put_usage(tx, {subject: Usage(1, 2, 3)}, NOW)
    return store, living, gone


def _samples(store: Store) -> dict[str, list[Sample]]:
    with store.read() as tx:
        whole = _BEGIN, _BEGIN + timedelta(days=365)
        return {subject: metrics.list_samples(tx, subject, *whole) for subject in metrics.subjects(tx)}


def _remove_samples(store: Store, now: datetime) -> None:
    retention.remove_samples(cast("Plane", SimpleNamespace(store=store)), now)


def test_the_first_sample_in_ten_minutes_stays_of_what_exists(url: str) -> None:
    store, living, _ = _sampled(url)
    _remove_samples(store, _BEGIN + timedelta(days=3))
    left = _samples(store)
    assert left.keys() == set(living)
    for subject in living:
        assert [one.at for one in left[subject]] == [_BEGIN + number * timedelta(minutes=10) for number in range(120)]
    with store.read() as tx:
        assert set(tx.scalars(sa.select(last_usage.c.subject))) == set(living)
    _remove_samples(store, _BEGIN + timedelta(days=31))
    assert _samples(store) == {}
    store.close()


def test_samples_are_removed_in_parts_between_which_others_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_SECONDS", float("inf"))
    store, living, _ = _sampled(url)
    left = [3 * _COUNT]
    store.recorders.append(
        lambda tx, _: left.append(tx.scalar(sa.select(sa.func.count()).select_from(metric_sample)) or 0)
    )
    for days, rest in ((3, len(living) * 120), (31, 0)):
        _remove_samples(store, _BEGIN + timedelta(days=days))
        assert left[-1] == rest
    assert max(before - after for before, after in itertools.pairwise(left)) == 500
    store.close()


def test_a_removal_of_samples_that_takes_long_goes_on_the_next_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_SECONDS", -1.0)
    store, _, gone = _sampled(url)
    with store.write() as tx:
        tx.execute(metric_sample.delete().where(metric_sample.c.subject != gone))
    for rest in (700, 200, 0):
        _remove_samples(store, _BEGIN)
        assert sum(map(len, _samples(store).values())) == rest
    store.close()
