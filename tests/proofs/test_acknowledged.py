"""The oracle of lost machines finds rows that are missing, out of order, changed, or were never sent."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from prove.acknowledged import Done, Key, Noted, content_of

T0 = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
A1, A2, A3, B1, B2 = (0, 1), (0, 2), (0, 3), (1, 1), (1, 2)
# The order of commits: A1, B1, A2, B2; A3 was sent and never confirmed.
ORDER = (A1, B1, A2, B2)


def noted() -> Noted:
    done = {
        key: Done(key, T0 + timedelta(seconds=place), 100 * place, 100 * place + 50) for place, key in enumerate(ORDER)
    }
    return Noted(frozenset((*ORDER, A3)), done)


def rows(*keys: Key) -> dict[Key, str]:
    return {key: content_of(key) for key in keys}


@pytest.mark.parametrize("length", range(len(ORDER) + 1))
def test_each_prefix_of_the_commits_is_sound(length: int) -> None:
    assert noted().faults(rows(*ORDER[:length]), frozenset(), None) == []


def test_a_row_that_was_not_confirmed_may_be_there() -> None:
    assert noted().faults(rows(*ORDER, A3), frozenset(), T0 + timedelta(seconds=9)) == []


@pytest.mark.parametrize(
    ("present", "kept", "promised", "fault"),
    [
        (rows(A1), frozenset(), T0 + timedelta(seconds=1.5), "1 rows are lost that were confirmed before"),
        (rows(A1, A2), frozenset(), None, r"1 holes: later rows are there, the first is \(1, 1\)"),
        (rows(A1, B1, B2), frozenset(), None, r"1 holes: later rows are there, the first is \(0, 2\)"),
        (rows(A1, B1, A3), frozenset(), None, r"1 holes: later rows are there, the first is \(0, 2\)"),
        (rows(A1, (7, 7)), frozenset(), None, r"1 rows were never sent, the first is \(7, 7\)"),
        (rows(A1), frozenset({(9, 1)}), None, r"1 rows of an earlier machine are lost, the first is \(9, 1\)"),
        ({A1: content_of(A2)}, frozenset(), None, "1 rows have another content"),
    ],
    ids=["promised", "other writer", "same position", "own writer", "never sent", "kept", "content"],
)
def test_what_is_wrong_is_found(
    present: dict[Key, str], kept: frozenset[Key], promised: datetime | None, fault: str
) -> None:
    found = noted().faults(present, kept, promised)
    assert len(found) == 1
    assert re.match(fault, found[0])


def test_the_loss_begins_with_the_first_row_that_is_missing() -> None:
    assert noted().lost_seconds(rows(A1, B1), T0 + timedelta(seconds=5)) == 3
    assert noted().lost_seconds(rows(*ORDER), T0 + timedelta(seconds=5)) == 0
