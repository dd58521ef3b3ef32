"""Who is silent is asked until it answers."""

import threading
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


def test_a_watch_that_no_thread_could_be_started_for_refuses_nothing_and_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = threading.Event()
    watch = Watch(asked.set)

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        watch.begin()
    assert not watch.is_silent
    watch.begin()
    assert asked.wait(10)
    eventually(lambda: not watch.is_silent)
