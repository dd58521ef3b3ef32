"""How many statements run at a time, which forms are refused, and who cancels what."""

from contextlib import ExitStack, suppress
from typing import Any, cast

import pytest

from harness.waiting import BOUND_SECONDS
from ramet.errors import Error, Exhausted, Unavailable, WrongState
from ramet.workbench.running import Desk
from ramet.workbench.statements import Complaint, StatementRefused


class _Session:
    """Notes that it was asked to cancel."""

    cancelled = 0

    def cancel_safe(self, **_: object) -> None:
        self.cancelled += 1


def test_a_key_has_three_statements_at_a_time_a_project_four_and_all_have_eight() -> None:
    desk = Desk()

    def begin(project_id: str, owner: str) -> None:
        stack.enter_context(desk.running(project_id, owner, f"{len(desk._running)}", commits=False))

    with ExitStack() as stack:
        for _ in range(3):
            begin("shop", "key 0")
        with pytest.raises(Exhausted, match="3 of your statements, 4 of your project's or 8 of all are running"):
            begin("shop", "key 0")
        begin("shop", "key 1")
        with pytest.raises(Exhausted, match="4 of your project's"):
            begin("shop", "key 1")
        for number in range(4):
            begin("blog", f"key {2 + number // 2}")
        with pytest.raises(Exhausted, match="8 of all"):
            begin("wiki", "key 9")
    with ExitStack() as stack:
        for _ in range(3):
            begin("shop", "key 0")


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (StatementRefused(Complaint("57014", "canceling statement due to user request")), False),
        (Unavailable("SESSION_LOST", "The session ended: terminating connection due to administrator command"), True),
        (Unavailable("STATEMENT_ABANDONED", "The statement did not end within 1 seconds"), True),
        (WrongState("STATEMENT_CANCELLED", "The statement was cancelled before it began"), False),
    ],
)
@pytest.mark.parametrize("commits", [True, False])
def test_a_statement_that_commits_may_have_committed_if_its_session_ended_before_the_answer(
    error: Error, is_unknown: bool, commits: bool
) -> None:
    with suppress(type(error)), Desk().running("shop", "key", "form", commits=commits) as running:
        running.begin_in(cast("Any", _Session()))
        raise error
    assert running.may_have_committed is (is_unknown and commits)


def test_of_those_who_cancel_a_statement_only_one_waits() -> None:
    desk = Desk()

    class Stubborn(_Session):
        """Gets another request to cancel the statement while it is being cancelled."""

        def cancel_safe(self, **_: object) -> None:
            super().cancel_safe()
            assert desk.cancel("key", "form") is running
            assert not running.await_end(BOUND_SECONDS)

    session = Stubborn()
    with desk.running("project", "key", "form", commits=False) as running:
        running.begin_in(cast("Any", session))
        running.cancel()
        assert session.cancelled == 1
        running.cancel()
        assert session.cancelled == 2
    assert running.await_end(0)


def test_a_form_runs_one_statement_at_a_time() -> None:
    desk = Desk()
    with desk.running("project", "key", "form", commits=False):
        with pytest.raises(WrongState, match="sent before"):
            desk.running("project", "key", "form", commits=False).__enter__()
        with desk.running("project", "another key", "form", commits=False):
            pass
    with desk.running("project", "key", "form", commits=False):
        pass


def test_a_statement_is_cancelled_by_its_owner_also_before_it_has_a_session() -> None:
    desk, session = Desk(), _Session()
    with desk.running("project", "key", "form", commits=False) as running:
        running.begin_in(cast("Any", session))
        assert desk.cancel("another key", "form") is None
        assert desk.cancel("key", "form") is not None
        assert session.cancelled == 1
    assert desk.cancel("key", "form") is None
    with desk.running("project", "key", "form", commits=False) as running:
        desk.cancel("key", "form")
        with pytest.raises(WrongState, match="before it began"):
            running.begin_in(cast("Any", session))
