"""Forms that write run once, in whichever process they arrive."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from ramet import acting
from ramet.acting import Act
from ramet.control.plane import Plane
from ramet.control.spent_forms import begin_once
from ramet.errors import WrongState
from ramet.model.session import SESSION_LIFE
from ramet.store.tables import spent_form
from tests.audited import entries_of
from tests.worlds import World


def _later(plane: Plane, after: timedelta) -> Plane:
    now = plane.clock() + after
    return replace(plane, clock=lambda: now)


def test_a_form_runs_once_for_each_key(world: World) -> None:
    public_key = world.key.public_key
    other, _ = world.projects.create_key(world.project.id, "other", world.plane.clock())
    begin_once(world.plane, public_key, "form")
    with pytest.raises(WrongState, match="sent before"):
        begin_once(world.plane, public_key, "form")
    begin_once(world.plane, public_key, "another form")
    begin_once(world.plane, other.public_key, "form")


def test_of_processes_that_get_a_form_at_once_one_runs_it(world: World) -> None:
    def begins(_: int) -> bool:
        try:
            begin_once(world.plane, world.key.public_key, "form")
        except WrongState:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(begins, range(4))) == [False, False, False, True]


def test_a_form_is_remembered_as_long_as_a_session_can_send_it(world: World) -> None:
    public_key = world.key.public_key
    begin_once(world.plane, public_key, "form")
    with pytest.raises(WrongState):
        begin_once(_later(world.plane, SESSION_LIFE - timedelta(minutes=1)), public_key, "form")
    begin_once(_later(world.plane, SESSION_LIFE), public_key, "another form")
    with world.store.read() as tx:
        assert len(tx.execute(sa.select(spent_form)).all()) == 1


def test_what_begins_is_recorded_and_what_was_sent_twice_is_not(world: World) -> None:
    for is_first in (True, False):
        with acting.acting(Act(via="console", verb="runStatement", request_id=str(is_first))):
            try:
                begin_once(world.plane, world.key.public_key, "form")
            except WrongState:
                assert not is_first
    assert [(one.outcome, one.request_id) for one in entries_of(world.store)] == [("started", "True")]
