"""Queries that would read all history without an index: the plan of the database names the index."""

from collections.abc import Callable
from functools import partial

import pytest
import sqlalchemy as sa

from ramet.store import monitoring, operations, running
from ramet.store.database import Store
from ramet.store.due import Known

Read = Callable[[sa.Connection], object]
_KNOWN = Known(
    frozenset({"fork.capture"}), frozenset({"fork.capture"}), frozenset({"snapshot"}), frozenset({"drill"}),
    frozenset({"fork.capture"}),
)  # fmt: skip
_OF_DUE: dict[str, Read] = {
    "seconds_until_due": partial(operations.seconds_until_due, known=_KNOWN),
    "lease": partial(operations.lease, worker="one", known=_KNOWN, seconds=30, limit=4),
    "cut_leases": operations.cut_leases,
    "is_busy": operations.is_busy,
    "list_unknown": partial(operations.list_unknown, known=_KNOWN),
    "count_starting": running.count_starting,
    "committed_mbs": running.committed_mbs,
    "queue": monitoring.queue,
}


def _plans(store: Store, read: Read) -> list[str]:
    """Return how the database carries out what `read` executes, as if tables were too large to be read whole."""
    statements: list[tuple[str, object]] = []
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
    assert any("ix_operation_due" in plan for plan in plans)
    for line in "\n".join(plans).splitlines():
        assert not line.strip(" ->").startswith(
            ("Seq Scan on operation", "SCAN operation USING INDEX sqlite_autoindex")
        )
        assert "SCAN operation" not in line or "ix_operation_due" in line
