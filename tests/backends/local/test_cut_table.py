"""Where recovery to a target ends, from the times and LSNs of transactions alone."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.backends.local.wal.boundary import Cut, CutSearch, Mark, clock_steps, cut_at_lsn
from ramet.backends.local.wal.waldump import TransactionEnd

TEN = datetime(2026, 1, 15, 10, tzinfo=UTC)


def _at(seconds: float) -> datetime:
    return TEN + timedelta(seconds=seconds)


def _cut(times: list[float], target: float, since: float | None = 0) -> Cut:
    ends = [TransactionEnd(700 + at, f"0/{at + 1:X}000", _at(time), True, 34) for at, time in enumerate(times)]
    return _cut_of(ends, _at(target), None if since is None else _at(since))


def _cut_of(ends: list[TransactionEnd], target: datetime, since: datetime | None) -> Cut:
    search = CutSearch.begin(target, since)
    search.read(ends)
    return search.cut()


def _included(cut: Cut, times: list[float]) -> int:
    """Return how many of the ends are included."""
    return 0 if cut.recover_to is None else cut.recover_to.xid - 699


AHEAD = [1, 2, 3601, 3602, 5, 6]


@pytest.mark.parametrize(
    ("times", "target", "count"),
    [
        ([1, 2, 3], 2, 2),
        ([1, 2, 3], 0.5, 0),
        ([1, 2, 3], 9, 3),
        ([], 9, 0),
        ([1, 2.000002, 2.000001, 3], 2.000001, 1),
        (AHEAD, 5, 5),
        (AHEAD, 5.5, 5),
        (AHEAD, 9, 6),
        (AHEAD, 4, 2),
        (AHEAD, 1800, 6),
        ([10, 20, 30, 5, 15, 25], 15, 5),
        ([10, 20, 30, 5, 15, 25], 4, 0),
        ([10, 20, 30, 5, 15, 1, 2], 3, 7),
        ([10, 20, 30, 12, 31, 32], 15, 1),
        ([10, 20, 30, 12], 15, 4),
    ],
    ids=[
        "on one", "before the first", "behind the last", "nothing", "microseconds out of order",
        "the first after a step back", "behind the first after a step back", "now after a step back",
        "before the step back and not after it", "ahead and not again", "the last occurrence", "before both",
        "the last of three", "a straggler is no step", "one end behind a step",
    ],
)  # fmt: skip
def test_all_ends_are_included_up_to_the_last_time_the_clock_passed_the_target(
    times: list[float], target: float, count: int
) -> None:
    assert _included(_cut(times, target), times) == count


def test_a_clock_that_went_back_since_the_base_is_noticed_at_the_first_end() -> None:
    cut = _cut([5, 6], 5.5, since=3600)
    assert [(step.before[11:19], step.after[11:19]) for step in cut.clock_steps] == [("11:00:00", "10:00:05")]
    assert _included(cut, [5, 6]) == 1


def test_transactions_behind_the_border_with_an_earlier_time_are_counted() -> None:
    cut = _cut([1, 2.5, 2.2, 2.1, 3], 2.3)
    assert _included(cut, []) == 1
    assert cut.behind_with_earlier_time == [702, 703]


def test_what_was_not_committed_is_no_last_included_transaction() -> None:
    ends = [
        TransactionEnd(700, "0/1000", _at(1), True, 34),
        TransactionEnd(701, "0/2000", _at(2), False, 34),
        TransactionEnd(702, "0/3000", _at(3), True, 34),
    ]
    cut = _cut_of(ends, _at(2.5), TEN)
    assert cut.last_included is not None
    assert cut.last_included.xid == 700
    assert cut.recover_to == ends[1]


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        ([10, 9], []),
        ([10, 8.999999], [1]),
        ([10, 5, 9], []),
        ([10, 5, 8.999999], [1]),
        ([10, 5, 11], []),
    ],
)
def test_a_clock_step_is_more_than_a_second_and_more_than_one_delayed_record(
    times: list[float], steps: list[int]
) -> None:
    ends = [TransactionEnd(700 + at, f"0/{at + 1:X}000", _at(time), True, 34) for at, time in enumerate(times)]
    assert list(clock_steps(ends, None)) == [ends[step] for step in steps]


def test_a_clock_step_is_reported_with_the_time_before_and_after_it() -> None:
    (step,) = _cut([10, 5], 20).clock_steps
    assert (step.lsn, step.before[11:19], step.after[11:19]) == ("0/2000", "10:00:10", "10:00:05")


def test_an_excluded_transaction_with_the_very_time_of_the_target_is_counted() -> None:
    assert _cut([2, 3.5, 3, 4], 3).behind_with_earlier_time == [702]


@pytest.mark.parametrize(
    ("lsn", "included", "excluded"),
    [("0/1000", None, 700), ("0/1001", 700, 702), ("0/3000", 700, 702), ("0/3001", 702, None)],
)
def test_an_lsn_divides_the_commits_before_it_from_those_at_or_after_it(
    lsn: str, included: int | None, excluded: int | None
) -> None:
    ends = [TransactionEnd(700 + at, f"0/{at + 1}000", _at(at), at != 1, 34) for at in range(3)]
    cut = cut_at_lsn(ends, lsn)
    assert (_xid(cut.last_included), _xid(cut.first_excluded)) == (included, excluded)


def _xid(mark: Mark | None) -> int | None:
    return None if mark is None else mark.xid


def test_a_report_has_all_facts_of_a_cut_but_the_record_to_recover_to() -> None:
    facts = _cut([1, 2, 3], 2).facts()
    assert set(facts) == {"last_included", "first_excluded", "behind_with_earlier_time", "clock_steps"}
    assert facts["last_included"] == {"xid": 701, "lsn": "0/2000", "time": "2026-01-15T10:00:02.000000Z"}
