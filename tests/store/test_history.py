"""What is forgotten of what was done, and what is not."""

from datetime import timedelta

import sqlalchemy as sa

from ramet.model.operation_record import Event
from ramet.store import history, operations, services
from ramet.store.database import Store
from ramet.store.tables import operation, operation_event
from tests.store.values import NOW, a_project, a_service

OLD = NOW - timedelta(days=31)
BEFORE = NOW - timedelta(days=30)


def an_operation(tx: sa.Connection, procedure: str, subject: str, **columns: object) -> str:
    operation_id = operations.submit(tx, procedure, "step", subject, {})
    operations.insert_event(tx, Event(operation_id, "step", "DONE", NOW, 0.1, None))
    values = {"status": "SUCCEEDED", "finished_at": OLD, **columns}
    tx.execute(operation.update().where(operation.c.id == operation_id).values(**values))
    return operation_id


def left(tx: sa.Connection) -> set[str]:
    ids = set(tx.scalars(sa.select(operation.c.id)))
    assert set(tx.scalars(sa.select(operation_event.c.operation_id))) == ids
    return ids


def test_what_was_over_long_ago_is_forgotten_with_its_events(store: Store) -> None:
    with store.write() as tx:
        subject = a_service(tx, a_project(tx)).id
        an_operation(tx, "snapshot", subject)
        recent = an_operation(tx, "snapshot", subject, finished_at=BEFORE)
        running = an_operation(tx, "stop", subject, status="RUNNING", finished_at=None)
        assert history.remove_operations(tx, BEFORE, 10) == 1
        assert left(tx) == {recent, running}


def test_no_more_is_forgotten_at_once_than_was_said_and_the_oldest_first(store: Store) -> None:
    with store.write() as tx:
        subject = a_service(tx, a_project(tx)).id
        made = [an_operation(tx, "snapshot", subject, finished_at=OLD - timedelta(days=age)) for age in range(5)]
        assert [history.remove_operations(tx, BEFORE, 2) for _ in range(2)] == [2, 2]
        assert left(tx) == {made[0]}


def test_how_a_living_service_was_made_and_upgraded_is_not_forgotten(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        living, failed, deleted = (a_service(tx, project, port=20000 + number).id for number in range(3))
        services.update_service(tx, failed, failed_at=OLD, failure="No room.")
        services.update_service(tx, deleted, deleted_at=OLD)
        kept = [an_operation(tx, procedure, living) for procedure in ("create", "fork", "upgrade")]
        for subject in (failed, deleted):
            an_operation(tx, "fork", subject)
        assert history.remove_operations(tx, BEFORE, 10) == 2
        assert left(tx) == set(kept)


def test_a_pause_is_not_forgotten_before_what_has_ended_it(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        subject, deleted = a_service(tx, project).id, a_service(tx, project, port=20001).id
        services.update_service(tx, deleted, deleted_at=NOW)
        paused = an_operation(tx, "stop", subject)
        an_operation(tx, "stop", deleted)
        an_operation(tx, "stop", subject, status="FAILED")
        assert history.remove_operations(tx, BEFORE, 10) == 2
        resumed = an_operation(tx, "resize", subject, finished_at=BEFORE)
        assert history.remove_operations(tx, BEFORE, 10) == 0
        assert left(tx) == {paused, resumed}
        assert history.remove_operations(tx, BEFORE + timedelta(seconds=1), 10) == 2


def test_what_still_holds_a_service_is_not_forgotten(store: Store) -> None:
    with store.write() as tx:
        subject = a_service(tx, a_project(tx)).id
        holder = an_operation(tx, "snapshot", subject)
        services.add_hold(tx, subject, holder)
        assert history.remove_operations(tx, BEFORE, 10) == 0
        assert left(tx) == {holder}


def test_of_frequent_operations_that_succeeded_only_the_last_is_kept(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        subject, another = (a_service(tx, project, port=20000 + number).id for number in range(2))
        names = ("snapshot", "expire", "prepare")
        for name in names:
            an_operation(tx, name, subject, created_at=OLD - timedelta(minutes=1))
        kept = {an_operation(tx, name, subject) for name in names}
        kept |= {an_operation(tx, name, another, created_at=OLD - timedelta(minutes=1)) for name in names}
        assert [history.remove_frequent_operations(tx, BEFORE, 2) for _ in range(3)] == [2, 1, 0]
        assert left(tx) == kept


def test_frequent_operations_that_are_listed_and_rare_ones_are_kept(store: Store) -> None:
    with store.write() as tx:
        subject, early = a_service(tx, a_project(tx)).id, {"created_at": OLD - timedelta(minutes=1)}
        kept = {an_operation(tx, name, subject, **early) for name in ("stop", "drill", "aftercare")}
        kept.add(an_operation(tx, "snapshot", subject, state={"kind": "MANUAL"}, **early))
        kept.add(an_operation(tx, "snapshot", subject, status="FAILED", error="Full.", **early))
        kept.add(an_operation(tx, "snapshot", subject, finished_at=BEFORE, **early))
        holder = an_operation(tx, "snapshot", subject, **early)
        services.add_hold(tx, subject, holder)
        kept |= {holder, *(an_operation(tx, name, subject) for name in ("stop", "drill", "aftercare", "snapshot"))}
        assert history.remove_frequent_operations(tx, BEFORE, 10) == 0
        assert left(tx) == kept


def test_operations_that_no_client_requested_are_listed_only_if_they_failed_or_with_all(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        subject = a_service(tx, project).id
        hidden = [an_operation(tx, name, subject) for name in ("prepare", "aftercare", "drill")]
        hidden.append(an_operation(tx, "snapshot", subject, state={"kind": "SCHEDULED"}))
        shown = [an_operation(tx, name, subject, state={}) for name in ("restart", "stop", "fork")]
        shown.append(an_operation(tx, "snapshot", subject, state={"kind": "MANUAL"}))
        shown.append(an_operation(tx, "snapshot", subject, state={"kind": "SCHEDULED"}, status="FAILED", error="Full."))

        def listed(*, everything: bool) -> set[str]:
            return {
                past.id for past in history.list_operations(tx, project.id, subject, 100, None, everything=everything)
            }

        assert listed(everything=False) == set(shown)
        assert listed(everything=True) == {*shown, *hidden}


def test_what_a_store_has_no_character_for_keeps_no_list_from_being_read(store: Store) -> None:
    """As what another Ramet answers, which is stored."""
    texts = ["a\0b", "\0\0", "\\\0", "\\u0000", "\\\\u0000", "🦫"]
    with store.write() as tx:
        project = a_project(tx)
        subject = a_service(tx, project).id
        operation_id = operations.submit(tx, "stop", "step", subject, {"said": texts, "reason": None})
    with store.read() as tx:
        (listed,) = history.list_operations(tx, project.id, None, 10, None, everything=False)
        kept = operations.get(tx, operation_id)
    assert kept is not None
    assert listed.id == operation_id
    if store.is_postgresql:
        texts = [text.replace("\0", "\ufffd") for text in texts]
    assert kept.state["said"] == texts
