"""What every backend tells of the statements and sessions of clients."""

import pytest

from harness.waiting import eventually
from ramet.errors import Unavailable
from tests.backends.contract.grounds import Ground


def test_statements_and_sessions_are_shown_while_the_server_runs(ground: Ground) -> None:
    server, insight = ground.create("one", "two"), ground.backend.insight
    eventually(lambda: any("INSERT" in one.text and one.rows >= 2 for one in insight.statements(server, 50)))
    assert len(insight.statements(server, 1)) == 1
    assert all(one.blocked_by == [] or one.blocked_by == () for one in insight.activity(server, 50))
    ground.backend.servers.stop(server)
    for ask in (insight.statements, insight.activity):
        with pytest.raises(Unavailable):
            ask(server, 50)
