"""What is removed because it is old: all of it, in parts between which others write."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ramet.control.duties import retention
from ramet.control.plane import Plane
from ramet.store import batches, idempotency, operations
from ramet.store.database import Store
from ramet.store.tables import operation
from tests.store.values import NOW, a_project, a_service
from tests.stores import open_store

_COUNT = 1200


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


def _remove(store: Store) -> None:
    plane = cast("Plane", SimpleNamespace(store=store))
    retention.remove_history(plane, NOW + timedelta(days=31), timedelta(days=30))


def test_all_that_is_old_is_removed_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_SECONDS", float("inf"))
    _remove(store)
    assert _left(store) == (0, 0)


def test_a_removal_that_takes_long_goes_on_the_next_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_SECONDS", -1.0)
    _remove(store)
    assert _left(store) == (700, 700)
    _remove(store)
    assert _left(store) == (200, 200)
