"""What every backend tells of the statements and sessions of clients."""

import pytest

from harness.waiting import eventually
from ramet.endpoints import DATABASE
from ramet.errors import NotFound, Unavailable
from tests.backends.contract.grounds import Ground


def test_statements_and_sessions_are_shown_while_the_server_runs(ground: Ground) -> None:
    server, insight = ground.create("one", "two"), ground.backend.insight
    eventually(lambda: any("INSERT" in one.text and one.rows >= 2 for one in insight.statements(server, 50)))
    assert len(insight.statements(server, 1)) == 1
    assert all(one.blocked_by == [] or one.blocked_by == () for one in insight.activity(server, 50))
    (table,) = insight.tables(server, DATABASE, 50).tables
    assert (table.schema, table.total_bytes is not None and table.total_bytes > 0) == ("public", True)
    with pytest.raises(NotFound):
        insight.tables(server, "nothing", 50)
    ground.backend.servers.stop(server)
    for ask in (insight.statements, insight.activity, lambda server, limit: insight.tables(server, DATABASE, limit)):
        with pytest.raises(Unavailable):
            ask(server, 50)
