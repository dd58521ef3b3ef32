"""A service that receives the changes of a database elsewhere, while its tables are copied."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramet.backends.interface.subscriptions import SOURCE_UNREACHABLE, SubscriptionState
from ramet.backends.interface.values import Server
from ramet.control.plane import utc_now
from ramet.control.services import get_service
from ramet.errors import Exhausted, Unavailable
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.operations.procedure import Wait, Work
from ramet.procedures.follow_logical import FollowLogical
from ramet.procedures.servers import Tools
from tests.procedures.test_laws import submit_follow_logical
from tests.worlds import Hurried, make_world


def test_a_source_is_asked_less_often_the_longer_its_tables_are_copied_and_the_storage_in_each_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    service_id = submit_follow_logical(world, "")

    asked, now, passed = list[float](), utc_now(), [0.0]

    def observe(_server: Server) -> SubscriptionState:
        asked.append(passed[0])
        return SubscriptionState(tables=9, copied_tables=1, lag_bytes=None)

    def clock() -> datetime:
        return now + timedelta(seconds=passed[0])

    monkeypatch.setattr(world.backend.subscriptions, "observe", observe)
    steps = FollowLogical(Tools(world.store, world.backend, clock, stopwatch=lambda: passed[0]))
    work: Work[Any] = Work("operation", service_id, "copy", None, 1, now, now)

    def look(seconds: float) -> None:
        passed[0] = seconds
        assert steps.copy(work) == Wait(0.1, "1 of 9 tables copied. ")

    for seconds in (0.0, 0.1, 30.0, 31.0, 31.5, 3600.0, 3604.9, 3605.0):
        look(seconds)
    assert asked == [0.0, 0.1, 30.0, 31.5, 3600.0, 3605.0]

    def check_room() -> None:
        raise Exhausted("NOT_ENOUGH_DISK", "The storage is nearly full")

    monkeypatch.setattr(world.backend.host, "check_room", check_room)
    with pytest.raises(Exhausted):
        look(3605.1)
    assert asked[-1] == 3605.0
    world.store.close()


def test_a_source_that_is_away_when_it_is_subscribed_to_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, kind=Hurried)
    subscribe, tries = world.backend.subscriptions.subscribe, [0]

    def restarting(server: Server) -> None:
        tries[0] += 1
        if tries[0] <= 20:
            raise Unavailable(SOURCE_UNREACHABLE, "The source cannot be reached")
        subscribe(server)

    monkeypatch.setattr(world.backend.subscriptions, "subscribe", restarting)
    service_id = submit_follow_logical(world, "")
    world.worker.run_until_idle(horizon_seconds=10)
    made = get_service(world.plane, world.project.id, service_id)
    assert (status_of(made), made.failure) == (Status.READY, None)
    world.store.close()
