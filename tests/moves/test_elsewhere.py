"""What the other Ramet answers, or does not, while a service moves there."""

import pytest

from ramet.client import ApiError, Client
from ramet.client.elsewhere import Elsewhere, as_of_procedure
from ramet.control.labels import update_labels
from ramet.errors import WrongState
from ramet.followers.verbs import promote_service
from ramet.model.labels import MOST_LABELS
from ramet.model.status import OperationStatus
from tests.moves.conftest import Over, Pair
from tests.moves.moving import go_on, held_at, shown

LONG = "x" * 100_000
MOST = 1200  # characters of a text from there, with what is said here of it


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
