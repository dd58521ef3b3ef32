"""Queries that would read all history without an index: the plan of the database names the index."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.store import metrics, monitoring, operations, running, services, webhooks
from ramet.store.database import Store
from ramet.store.due import Known
from ramet.store.history import list_operations
from ramet.store.listed_services import list_marks, list_services
from ramet.store.quotas import list_holdings
from tests.store.values import NOW

Read = Callable[[sa.Connection], object]
_KNOWN = Known(
    frozenset({"fork.capture"}), frozenset({"fork.capture"}), frozenset({"snapshot"}), frozenset({"drill"}),
    frozenset({"fork.capture"}),
)  # fmt: skip
_SNAPSHOTS: dict[str, Any] = {"subject": "shop", "procedure": "snapshot"}
_BY_STATUS = "ix_operation_by_status (subject=? AND procedure=? AND status=?)"
_BY_AGE = "ix_operation_by_age (subject=? AND procedure=?)"
_OF_DUE: dict[str, Read] = {
    "seconds_until_due": partial(operations.seconds_until_due, known=_KNOWN),
    "lease": partial(operations.lease, worker="one", known=_KNOWN, seconds=30, limit=4),
    "cut_leases": operations.cut_leases,
    "is_busy": operations.is_busy,
    "list_unknown": partial(operations.list_unknown, known=_KNOWN),
    "count_starting": running.count_starting,
    "committed_mbs": running.committed_mbs,
    "queue": monitoring.queue,
    "progress_in": partial(operations.progress_in, project_id="demo"),
}
_BY_INDEX: dict[str, tuple[Read, str]] = {
    "list_marks": (partial(list_marks, project_id="demo", now=NOW, used_since=NOW), "ix_service_present"),
    "page": (
        partial(list_marks, project_id="demo", now=NOW, used_since=NOW, after=(NOW, "shop"), limit=9),
        "ix_service_present",
    ),
    "list_services": (partial(list_services, project_id="demo", now=NOW), "ix_service_present"),
    "list_holdings": (partial(list_holdings, project_id="demo"), "ix_service_present"),
    "ends_of_forks_of_now": (partial(services.ends_of_forks_of_now, service_id="shop"), "ix_service_parent"),
    "deleted_with_archive": (services.deleted_with_archive, "ix_service_in_archive"),
    "list_operations": (
        partial(list_operations, project_id="demo", service_id=None, limit=9, before=None, everything=False),
        "ix_operation_listing",
    ),
    "operations of a service": (
        partial(list_operations, project_id="demo", service_id="shop", limit=9, before=None, everything=False),
        "ix_operation_by_",
    ),
    "under_way": (partial(operations.under_way, **_SNAPSHOTS), _BY_STATUS),
    "is_running": (partial(operations.is_running, **_SNAPSHOTS), _BY_STATUS),
    "under_way_of": (partial(operations.under_way_of, **_SNAPSHOTS), _BY_STATUS),
    "last_failed": (partial(operations.last_failed, **_SNAPSHOTS, kind="SCHEDULED", until=NOW), _BY_STATUS),
    "newest of a subject": (partial(operations.of_subject, **_SNAPSHOTS, most=1), _BY_AGE),
    "durations_of_forks": (
        partial(operations.durations_of_forks, state={}, project_id="demo", limit=9),
        "ix_service_listing",
    ),
    "is_any_due": (partial(webhooks.is_any_due, now=NOW), "ix_delivery_due"),
    "restarts": (partial(monitoring.restarts, since=NOW), "ix_operation_over"),
    "own_space_in_project": (partial(metrics.own_space_in_project, project_id="demo"), "ix_service_present"),
    "usage_in_project": (partial(metrics.usage_in_project, project_id="demo", since=NOW), "ix_service_present"),
}


def _plans(store: Store, read: Read) -> list[str]:
    """Return how the database carries out what `read` executes, as if tables were too large to be read whole."""
    statements: list[tuple[str, Any]] = []
    with store.read() as tx:
        sa.event.listen(tx, "before_cursor_execute", lambda *given: statements.append((given[2], given[3])))
        read(tx)
        if store.is_postgresql:
            tx.execute(sa.text("SET LOCAL enable_seqscan = off"))
        explain = "EXPLAIN " if store.is_postgresql else "EXPLAIN QUERY PLAN "
        sent = [one for one in statements if one[0].startswith(("SELECT", "WITH", "DELETE", "UPDATE"))]
        return ["\n".join(str(row[-1]) for row in tx.exec_driver_sql(explain + sql, given)) for sql, given in sent]


@pytest.mark.parametrize("name", _OF_DUE)
def test_operations_under_way_are_found_by_their_index(store: Store, name: str) -> None:
    plans = [plan for plan in _plans(store, _OF_DUE[name]) if "operation" in plan]
    indexes = ["ix_operation_due", *(["ix_operation_by_status"] if store.is_postgresql else [])]  # by what tables have
    assert any(index in plan for plan in plans for index in indexes)
    for line in "\n".join(plans).splitlines():
        assert not line.strip(" ->").startswith(
            ("Seq Scan on operation", "SCAN operation USING INDEX sqlite_autoindex")
        )
        assert "SCAN operation" not in line or "ix_operation_due" in line


@pytest.mark.parametrize("name", _BY_INDEX)
def test_rows_are_found_by_the_index_of_those_that_are_wanted(store: Store, name: str) -> None:
    read, index = _BY_INDEX[name]
    plans = _plans(store, read)
    if store.is_postgresql:  # which of two indexes it takes depends on what the tables have
        assert not any("Seq Scan on service" in plan or "Seq Scan on operation" in plan for plan in plans)
    else:
        assert any(index in plan for plan in plans)
