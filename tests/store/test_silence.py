"""Who is silent is asked until it answers."""

from collections.abc import Callable

import pytest
from sqlalchemy.exc import OperationalError

from harness.waiting import eventually
from ramet.store.silence import Watch


def _answering_after(error: Exception) -> Callable[[], None]:
    left = [error]

    def ask() -> None:
        if left:
            raise left.pop()

    return ask


@pytest.mark.parametrize(
    "error",
    [OperationalError("SELECT 1", {}, Exception("no answer")), OSError(24, "Too many open files"), RuntimeError()],
    ids=["no answer", "no descriptor", "an unforeseen error"],
)
def test_silence_ends_with_the_first_answer_whatever_came_before(error: Exception) -> None:
    watch = Watch(_answering_after(error))
    watch.begin()
    assert watch.is_silent
    eventually(lambda: not watch.is_silent)
