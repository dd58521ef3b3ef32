"""What the other Ramet answers, or does not, while a service moves there."""

from datetime import timedelta
from typing import Any

import pytest

from ramet.client import ApiError, Client
from ramet.client.elsewhere import Elsewhere, as_of_procedure
from ramet.control.labels import update_labels
from ramet.control.services import rename_service
from ramet.errors import Unavailable, WrongState
from ramet.followers.verbs import promote_service
from ramet.model.labels import MOST_LABELS
from ramet.model.status import OperationStatus
from ramet.moves import procedure as steps
from ramet.moves.destination import Seen
from ramet.operations import transitions
from tests.moves.conftest import Over, Pair, Watched
from tests.moves.moving import go_on, held_at, shown

LONG = "x" * 100_000
MOST = 1200  # characters of a text from there, with what is said here of it


def test_a_ramet_that_does_not_answer_while_the_service_is_down_does_not_end_the_move(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_id, blocked = held_at(pair, "drain")
    monkeypatch.setattr(transitions, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(transitions, "_LONGEST_PAUSE_SECONDS", 0.001)
    asked = list[str]()

    def look(there: Watched, service_id: str) -> Seen | None:
        asked.append(service_id)
        if len(asked) <= 2 * transitions.MAX_ATTEMPTS:
            raise Unavailable("SERVER_UNREACHABLE", "No Ramet answers")
        return Elsewhere.look(there, service_id)

    monkeypatch.setattr(Watched, "look", look)
    go_on(pair, blocked)
    assert (shown(pair, move_id).status, pair.places()) == (OperationStatus.SUCCEEDED, ["there"])


def test_a_service_is_down_no_longer_than_its_end_may_take_while_the_other_ramet_does_not_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_id, blocked = held_at(pair, "drain")
    monkeypatch.setattr(steps, "_DRAIN_WITHIN", timedelta(0))
    pair.is_away = True
    go_on(pair, blocked, 2.0)
    assert pair.places() == ["here"]
    pair.is_away = False
    go_on(pair, [])
    found = shown(pair, move_id)
    assert found.status is OperationStatus.FAILED
    assert pair.copies() == []
    assert "has not received the end of this one, 0/2, in time: No Ramet answers" in (found.error or "")


def test_a_copy_that_was_promoted_there_while_it_caught_up_ends_the_move(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "catch_up")
    (copy,) = pair.copies()
    promote_service(pair.there.plane, pair.there.project.id, copy.id, lsn=None, drain=False, neutralize=False)
    assert len(pair.copies()) == 1
    go_on(pair, blocked)
    found = shown(pair, move_id)
    assert (found.status, pair.places()) == (OperationStatus.FAILED, ["here", "there"])
    assert "follows this one no more" in (found.error or "")


def test_a_service_that_has_as_many_labels_as_it_may_is_not_moved(pair: Pair) -> None:
    service = pair.service()
    labels = {f"label{number}": "x" for number in range(MOST_LABELS)}
    update_labels(pair.here.plane, pair.here.project.id, service.id, labels)
    with pytest.raises(WrongState, match="32 labels"):
        pair.request(service)
    update_labels(pair.here.plane, pair.here.project.id, service.id, {"label0": None})
    pair.request(service)
    pair.work()
    assert pair.places() == ["there"]


def test_labels_that_are_added_while_a_service_is_copied_do_not_end_its_move(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "claim")
    labels = {f"label{number}": "x" for number in range(MOST_LABELS)}
    update_labels(pair.here.plane, pair.here.project.id, shown(pair, move_id).service_id, labels)
    go_on(pair, blocked)
    assert pair.places() == ["there"]
    assert pair.copies()[0].labels == labels


def test_what_is_changed_there_stays_where_the_rest_is_given_once_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_id, blocked = held_at(pair, "equip")
    equip, asked = Elsewhere.equip, list[str]()

    def lose_first_answer(there: Watched, service_id: str, *rest: Any) -> list[str]:
        notes = equip(there, service_id, *rest)
        asked.append(service_id)
        if len(asked) == 1:
            update_labels(pair.there.plane, pair.there.project.id, service_id, {"set": "there"})
            rename_service(pair.there.plane, pair.there.project.id, service_id, "there")
            raise Unavailable("SERVER_UNREACHABLE", "No Ramet answers")
        return notes

    monkeypatch.setattr(Watched, "equip", lose_first_answer)
    go_on(pair, blocked)
    assert (shown(pair, move_id).status, len(asked)) == (OperationStatus.SUCCEEDED, 2)
    (copy,) = pair.copies()
    assert (copy.labels, copy.name) == ({"set": "there"}, "there")


@pytest.mark.parametrize("status", [403, 503])
def test_an_error_of_the_other_ramet_is_shown_as_far_as_there_is_room(status: int) -> None:
    assert len(str(as_of_procedure(ApiError(status, LONG, LONG, LONG)))) < 2 * MOST
    assert len(as_of_procedure(ApiError(status, LONG, "message")).code) < MOST


def test_what_the_other_ramet_says_of_the_service_is_kept_as_far_as_there_is_room(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_at(pair, "claim")
    (copy,) = pair.copies()
    monkeypatch.setattr(pair.there.backend.followers, "problem", LONG)
    pair.receive()
    keys = (pair.there.project.id, pair.there.key.public_key, pair.there.secret)
    seen = Elsewhere(Client("http://localhost:9", *keys, transport=Over(pair.http, []))).look(copy.id)
    assert seen is not None
    assert len(seen.problem or "") == 1000
