"""How many statements run at a time, which forms are refused, and who cancels what."""

from contextlib import ExitStack
from typing import Any, cast

import pytest

from ramet.errors import Exhausted, WrongState
from ramet.workbench.running import Desk


class _Session:
    """Notes that it was asked to cancel."""

    cancelled = 0

    def cancel_safe(self, **_: object) -> None:
        self.cancelled += 1


def test_a_key_has_three_statements_at_a_time_and_all_have_eight() -> None:
    desk = Desk()
    with ExitStack() as stack:
        for number in range(8):
            stack.enter_context(desk.running(f"key {number // 3}", str(number), once=False))
        with pytest.raises(Exhausted, match="3 of your statements and 8 of all"):
            stack.enter_context(desk.running("key 0", "more", once=False))
        with pytest.raises(Exhausted, match="0 of your statements and 8 of all"):
            stack.enter_context(desk.running("key 9", "more", once=False))
    with desk.running("key 0", "more", once=False):
        pass


def test_a_form_runs_once_where_it_writes_and_one_at_a_time_else() -> None:
    desk = Desk()
    with desk.running("key", "form", once=False), pytest.raises(WrongState, match="sent before"):
        desk.running("key", "form", once=False).__enter__()
    with desk.running("key", "form", once=True):
        pass
    with pytest.raises(WrongState, match="sent before"):
        desk.running("key", "form", once=True).__enter__()
    with desk.running("another key", "form", once=True):
        pass


def test_a_statement_is_cancelled_by_its_owner_also_before_it_has_a_session() -> None:
    desk, session = Desk(), _Session()
    with desk.running("key", "form", once=False) as running:
        running.begin_in(cast("Any", session))
        assert desk.cancel("another key", "form") is None
        assert desk.cancel("key", "form") is not None
        assert session.cancelled == 1
    assert desk.cancel("key", "form") is None
    with desk.running("key", "form", once=False) as running:
        desk.cancel("key", "form")
        with pytest.raises(WrongState, match="before it began"):
            running.begin_in(cast("Any", session))
