"""Drills whose host was restarted before what they have copied was on disk."""

from datetime import timedelta

import pytest

from ramet.backends.interface.restore import INTERRUPTED_BY_REBOOT
from ramet.control.duties.drills import submit_due_drill
from ramet.errors import Failed
from tests.worlds import World, look


@pytest.mark.parametrize("needs_parent", [False, True])
@pytest.mark.parametrize(("part", "call"), [("restore", "recover"), ("servers", "start")])
def test_a_drill_begins_again_after_a_reboot(
    world: World, monkeypatch: pytest.MonkeyPatch, part: str, call: str, needs_parent: bool
) -> None:
    service = world.create()
    world.backend.recoveries_need_parent = needs_parent
    calls: list[object] = []
    act = getattr(getattr(world.backend, part), call)

    def refuse_once(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            raise Failed(INTERRUPTED_BY_REBOOT, "The host was restarted")
        return act(*arguments, **options)

    monkeypatch.setattr(getattr(world.backend, part), call, refuse_once)
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    drilled = look(world, service)
    assert (drilled.drill_failure, len(calls)) == (None, 2)
    assert drilled.last_verified_at is not None
    assert world.leftovers() == []
