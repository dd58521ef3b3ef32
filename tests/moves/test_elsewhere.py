"""What the other Ramet answers, or does not, while a service moves there."""

import pytest

from ramet.client import ApiError, Client
from ramet.client.elsewhere import Elsewhere, as_of_procedure
from tests.moves.conftest import Over, Pair
from tests.moves.moving import held_at

LONG = "x" * 100_000
MOST = 1200  # characters of a text from there, with what is said here of it


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
