"""A service that receives the changes of a database elsewhere, while its tables are copied."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ramet.backends.interface.subscriptions import SubscriptionState
from ramet.backends.interface.values import Server
from ramet.control.plane import utc_now
from ramet.operations.procedure import Wait, Work
from ramet.procedures.follow_logical import FollowLogical
from ramet.procedures.servers import Tools
from tests.procedures.test_laws import submit_follow_logical
from tests.worlds import make_world


def test_a_source_is_asked_less_often_the_longer_its_tables_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    service_id = submit_follow_logical(world, "")

    def observe(_server: Server) -> SubscriptionState:
        return SubscriptionState(tables=9, copied_tables=1, lag_bytes=None)

    monkeypatch.setattr(world.backend.subscriptions, "observe", observe)
    now = utc_now()
    steps = FollowLogical(Tools(world.store, world.backend, lambda: now))

    def pause_after(seconds: float) -> float:
        begun = now - timedelta(seconds=seconds)
        work: Work[Any] = Work("operation", service_id, "copy", None, 1, begun, begun)
        outcome = steps.copy(work)
        assert isinstance(outcome, Wait)
        return outcome.seconds

    assert [pause_after(seconds) for seconds in (0, 30, 3600)] == [0.1, 1.5, 5.0]
    world.store.close()
