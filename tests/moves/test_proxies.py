"""A proxy answers 404 where the other Ramet is, while that restarts: this says nothing about the service there."""

from dataclasses import replace
from typing import Any

import pytest

from ramet.client.elsewhere import Elsewhere
from ramet.control.poolers import enable_pooler
from ramet.model.status import OperationStatus
from ramet.moves.verbs import cancel_move
from ramet.operations.procedure import Procedure, Work
from tests import procedure_laws as laws
from tests.moves.conftest import Pair, Watched
from tests.moves.moving import go_on, held_at, run, shown


@pytest.mark.parametrize("step", ["check", "follow", "catch_up", "drain", "promote"])
def test_a_proxy_that_knows_no_ramet_for_a_moment_ends_no_move(pair: Pair, step: str) -> None:
    move_id, blocked = held_at(pair, step)
    pair.restarts.append("")
    go_on(pair, blocked)
    assert pair.restarts == []
    assert (shown(pair, move_id).status, pair.places()) == (OperationStatus.SUCCEEDED, ["there"])


def test_a_proxy_that_knows_no_ramet_after_it_has_begun_to_promote_opens_nothing_here(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_place(there: Watched, service_id: str, lsn: str) -> None:
        Elsewhere.take_place(there, service_id, lsn)
        pair.restarts.append("")

    monkeypatch.setattr(Watched, "take_place", take_place)
    found = run(pair, lambda one: one)
    assert (found.status, pair.places(), pair.restarts) == (OperationStatus.SUCCEEDED, ["there"], [])


def test_a_proxy_that_knows_no_ramet_while_a_promotion_is_undone_opens_nothing_here(pair: Pair) -> None:
    def restarting(one: Procedure) -> Procedure:
        failing = laws.failing(one, "promote", after=True)

        def undo(work: Work[Any]) -> None:
            if work.attempt == 1:
                pair.restarts.append("")
            failing.undo["promote"](work)

        return replace(failing, undo={**failing.undo, "promote": undo})

    found = run(pair, restarting)
    assert (found.status, pair.places(), pair.restarts) == (OperationStatus.FAILED, ["there"], [])


def test_a_proxy_that_knows_no_ramet_for_a_moment_keeps_no_copy_there(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "claim")
    cancel_move(pair.here.plane, pair.here.project.id, pair.moved, move_id)
    pair.restarts.append("")
    go_on(pair, blocked)
    assert (pair.restarts, pair.places(), pair.copies()) == ([], ["here"], [])


def test_a_proxy_that_knows_no_ramet_for_a_moment_takes_nothing_away(pair: Pair) -> None:
    service = pair.service()
    enable_pooler(pair.here.plane, pair.here.project.id, service.id)
    pair.work()
    move_id = pair.request(service)
    pair.restarts.append("enablePooler")
    pair.work()
    (copy,) = pair.copies()
    assert (pair.restarts, shown(pair, move_id).notes, copy.pooler_port is None) == ([], (), False)
