"""Services as rows: what goes in comes out, what clients see, ports, holds, and the operation that has a service."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ramet.ids import new_id
from ramet.model.service import Origin, Service, is_visible
from ramet.model.size import Size
from ramet.model.status import FAILED_SHOWN_FOR, OperationStatus
from ramet.store import listed_services, services
from ramet.store.database import Store
from ramet.store.operations import submit
from ramet.store.tables import operation
from tests.store.values import NOW, a_project, a_service

ORIGIN = Origin("p" * 10, "s" * 10, "shop", "PITR", "2026-01-15T10:30:00.25+05:30", "n" * 10, NOW)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"origin": ORIGIN, "settings": {"window_days": 3}},
        {"origin": Origin("p" * 10, "s" * 10, "shop", "NOW"), "size": Size(), "name": "Ümläut 'x' \"y\" 🌱"},
    ],
    ids=["plain", "restore_time", "now"],
)
def test_a_service_comes_back_as_it_was(store: Store, columns: dict[str, object]) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx), **columns)
    with store.read() as tx:
        assert services.get_service(tx, service.id) == service
        assert services.get_service(tx, new_id()) is None


def test_changed_columns_come_back(store: Store) -> None:
    changes: dict[str, Any] = {
        "ready_at": NOW,
        "paused": True,
        "down_reason": "It crashed.",
        "report": {"segments": [1, 2]},
    }
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        services.update_service(tx, service.id, **changes)
        assert services.get_service(tx, service.id) == replace(service, **changes)


def test_a_listing_is_one_query_and_holds_what_the_model_calls_visible(store: Store) -> None:
    ends: list[dict[str, Any]] = [{}, {"failed_at": NOW}, {"failed_at": NOW - FAILED_SHOWN_FOR}, {"deleted_at": NOW}]
    with store.write() as tx:
        project, other = a_project(tx), a_project(tx)
        made = []
        for number, end in enumerate(ends):
            service = a_service(tx, project, port=20000 + number, created_at=NOW - timedelta(seconds=number))
            services.update_service(tx, service.id, name="shop", **end)
            made.append(replace(service, **end))
        a_service(tx, other, port=30000)
    queries: list[str] = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda _c, _k, query, *_: queries.append(query))
    with store.read() as tx:
        listed = listed_services.list_services(tx, project.id, NOW)
    assert listed == [service for service in reversed(made) if is_visible(service, NOW)]
    assert len([query for query in queries if query.startswith("SELECT")]) == 1


def test_a_port_belongs_to_one_live_service(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        first = a_service(tx, project, port=20001)
        assert services.used_ports(tx) == {20001}
    with pytest.raises(sa.exc.IntegrityError), store.write() as tx:
        a_service(tx, project, port=20001)
    with store.write() as tx:
        services.update_service(tx, first.id, deleted_at=NOW)
        assert services.used_ports(tx) == set()
        a_service(tx, project, port=20001)


def test_a_service_shows_the_operation_that_has_it_until_that_is_finished(store: Store) -> None:
    with store.write() as tx:
        service = claimed(tx)
        operation_id = submit(tx, "create", "initialize", service.id, {})
        services.update_service(tx, service.id, operation_id=operation_id)
        found = services.get_service(tx, service.id)
        assert found is not None
        assert found.activity is not None
        assert (found.activity.procedure, found.activity.status) == ("create", OperationStatus.RUNNING)
        assert not found.activity.started
        services.finish_operation(tx, service.id, operation_id, ready_at=NOW)
        assert services.get_service(tx, service.id) == replace(service, ready_at=NOW)


def test_an_operation_whose_service_was_claimed_by_a_later_one_finishes_without_effect(store: Store) -> None:
    with store.write() as tx:
        service = claimed(tx)
        first, second = (submit(tx, name, "settle", service.id, {}) for name in ("stop", "delete"))
        services.update_service(tx, service.id, operation_id=second)
        services.finish_operation(tx, service.id, first, paused=True)
        found = services.get_service(tx, service.id)
        assert found is not None
        assert found.activity is not None
        assert (found.paused, found.activity.operation_id) == (False, second)


def test_holds_are_seen_until_they_are_dropped(store: Store) -> None:
    with store.write() as tx:
        service = claimed(tx)
        forks = [submit(tx, "fork", "capture", service.id, {}) for _ in range(2)]
        for fork in forks:
            services.add_hold(tx, service.id, fork)
        assert sorted(services.holders(tx, service.id)) == sorted(forks)
        services.drop_holds(tx, forks[0])
        assert services.holders(tx, service.id) == [forks[1]]


@pytest.mark.parametrize(("strategy", "counts"), [("NOW", True), ("LAST_SNAPSHOT", True), ("PITR", False)])
def test_a_fork_is_remembered_of_its_parent_by_its_strategy_and_its_age(
    store: Store, strategy: str, counts: bool
) -> None:
    with store.write() as tx:
        project = a_project(tx)
        parent, other = a_service(tx, project), a_service(tx, project, port=20001)
        fork = a_service(tx, project, port=20002, origin=Origin(project.id, parent.id, "shop", strategy=strategy))
        a_second_ago = NOW - timedelta(seconds=1)
        assert services.count_forks(tx, parent.id, a_second_ago, 5) == counts
        assert services.count_forks(tx, parent.id, NOW, 5) == 0
        assert services.count_forks(tx, other.id, a_second_ago, 5) == 0
        services.update_service(tx, fork.id, deleted_at=NOW)
        assert services.count_forks(tx, parent.id, a_second_ago, 5) == counts


def test_forks_are_counted_up_to_a_bound(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        parent = a_service(tx, project)
        for port in (20001, 20002, 20003):
            a_service(tx, project, port=port, origin=Origin(project.id, parent.id, "shop", strategy="NOW"))
        assert [services.count_forks(tx, parent.id, NOW - timedelta(seconds=1), most) for most in (1, 2, 5)] == [
            1,
            2,
            3,
        ]


@pytest.mark.parametrize(("is_open", "counted"), [(True, ["0/2"]), (False, ["0/2", "0/1"])])
def test_forks_of_before_an_upgrade_that_was_not_undone_do_not_count(
    store: Store, is_open: bool, counted: list[str]
) -> None:
    second = timedelta(seconds=1)
    with store.write() as tx:
        project = a_project(tx)
        parent = a_service(tx, project)
        for number in (1, 2):
            origin = Origin(project.id, parent.id, "shop", strategy="NOW")
            fork = a_service(tx, project, port=20000 + number, origin=origin)
            capture = {"timeline": 1, "end_lsn": f"0/{number}"}
            report = {"capture": capture, "recovery": {}, "neutralised": {}}
            services.update_service(tx, fork.id, ready_at=NOW + number * second, report=report)
        upgrade = submit(tx, "upgrade", "settle", parent.id, {"is_open": is_open})
        tx.execute(operation.update().where(operation.c.id == upgrade).values(finished_at=NOW + 1.5 * second))
        submit(tx, "upgrade", "settle", parent.id, {})
        assert [lsn for _, lsn in services.ends_of_forks_of_now(tx, parent.id)] == counted


def test_live_services_are_those_of_all_projects_that_are_neither_deleted_nor_failed(store: Store) -> None:
    with store.write() as tx:
        live = [a_service(tx, a_project(tx), port=20000 + number) for number in range(2)]
        for number, end in enumerate(("deleted_at", "failed_at")):
            gone = a_service(tx, a_project(tx), port=20010 + number)
            services.update_service(tx, gone.id, **{end: NOW})
        assert {service.id for service in services.live_services(tx)} == {service.id for service in live}


def claimed(tx: sa.Connection) -> Service:
    return a_service(tx, a_project(tx))


def test_those_that_an_operation_has_claimed_are_known_while_it_runs(store: Store) -> None:
    with store.write() as tx:
        project_id = a_project(tx)
        claimed, free = a_service(tx, project_id), a_service(tx, project_id, port=20001)
        operation_id = submit(tx, "pause", "stop", claimed.id, {})
        services.update_service(tx, claimed.id, operation_id=operation_id)
    ids = {claimed.id, free.id, new_id()}
    with store.read() as tx:
        assert services.claimed_among(tx, ids) == {claimed.id}
        assert services.claimed_among(tx, []) == set()
    with store.write() as tx:
        services.finish_operation(tx, claimed.id, operation_id)
        assert services.claimed_among(tx, ids) == set()
