"""Idempotency keys as rows."""

from datetime import timedelta

from ramet.store import idempotency
from ramet.store.database import Store
from ramet.store.idempotency import Remembered
from tests.store.values import NOW, a_project, a_service


def test_a_key_is_remembered_for_its_project_only_and_can_get_a_new_meaning(store: Store) -> None:
    with store.write() as tx:
        project, other = a_project(tx), a_project(tx)
        first, second = a_service(tx, project), a_service(tx, project, port=20001)
        assert idempotency.find(tx, project.id, "key") is None
        idempotency.insert(tx, project.id, "key", "body", first.id, NOW)
        assert idempotency.find(tx, project.id, "key") == Remembered("body", first.id)
        assert idempotency.find(tx, other.id, "key") is None
        idempotency.insert(tx, project.id, "key", "another", second.id, NOW)
        assert idempotency.find(tx, project.id, "key") == Remembered("another", second.id)


def test_old_keys_are_forgotten_a_few_at_a_time_and_the_oldest_first(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        service = a_service(tx, project)
        for age in range(4):
            idempotency.insert(tx, project.id, str(age), "body", service.id, NOW - timedelta(days=age))
        assert [idempotency.remove(tx, NOW, 2) for _ in range(3)] == [2, 1, 0]
        assert [idempotency.find(tx, project.id, str(age)) is None for age in range(4)] == [False, True, True, True]
