"""Which snapshots a restore window needs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ramet.model.snapshot import (
    ClockStep,
    Snapshot,
    SnapshotKind,
    base_for,
    clock_steps,
    in_wal_order,
    lsn_number,
    newest,
    retired,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def snapshot(days_ago: float, kind: SnapshotKind = SnapshotKind.SCHEDULED) -> Snapshot:
    taken_at = NOW - timedelta(days=days_ago)
    return Snapshot(f"{days_ago}-{kind}", "s" * 10, kind, taken_at, "0/1", "0/2", 1, 1, 1)


WINDOW = timedelta(days=7)


def kept_of(known: list[Snapshot]) -> list[Snapshot]:
    unneeded = {snapshot.id for snapshot in retired(known, NOW, WINDOW)}
    return [snapshot for snapshot in known if snapshot.id not in unneeded]


def test_the_base_of_the_windows_start_is_kept_and_older_ones_are_retired() -> None:
    known = [snapshot(9), snapshot(8), snapshot(6), snapshot(0)]
    assert [s.id for s in retired(known, NOW, WINDOW)] == [snapshot(9).id]


@pytest.mark.parametrize("days_ago", [30, -300])
def test_a_clock_that_was_wrong_for_a_while_retires_nothing_of_the_window(days_ago: float) -> None:
    times = [12, 9, 6, 5, days_ago, 4, 3, 0]
    known = [replace(snapshot(days), end_lsn=f"0/{number + 2}") for number, days in enumerate(times)]
    assert [s.taken_at for s in retired(known, NOW, WINDOW)] == [known[0].taken_at]


def test_manual_snapshots_stay_and_are_no_base_of_the_window() -> None:
    known = [snapshot(9), snapshot(8, SnapshotKind.MANUAL), snapshot(0)]
    assert retired(known, NOW, WINDOW) == []


def _written(gigabytes: float, days_ago: float, size_gigabytes: float = 1, timeline: int = 1) -> Snapshot:
    """Return a snapshot of so much data, at a place in the WAL."""
    lsn = f"{int(gigabytes * 4) >> 4:X}/{(int(gigabytes * 4) & 15) << 28:X}"
    size_bytes = int(size_gigabytes * 2**30)
    return replace(snapshot(days_ago), end_lsn=lsn, size_bytes=size_bytes, timeline=timeline, id=f"at {gigabytes}")


def _spared(known: list[Snapshot]) -> list[str]:
    return [one.id for one in retired(known, NOW, WINDOW, is_sparing=True)]


def test_where_snapshots_are_copies_those_with_little_wal_before_them_are_retired_by_the_next_one() -> None:
    known = [_written(1, 5), _written(1.5, 4), _written(2, 3), _written(2.75, 2), _written(3.25, 1), _written(3.5, 0)]
    assert _spared(known) == ["at 1.5", "at 2.75"]
    assert _spared(known[:2]) == []


def test_where_snapshots_are_copies_snapshots_take_no_more_than_the_wal_and_two_more() -> None:
    known: list[Snapshot] = []
    for step in range(1, 200):
        known.append(_written(step / 4, 6 - step / 40, size_gigabytes=3))
        known = [one for one in known if one.id not in _spared(known)]
        assert 3 * len(known) <= step / 4 + 6


def test_where_snapshots_are_copies_clock_steps_and_timelines_keep_their_snapshots() -> None:
    back = [_written(1, 4), _written(1.25, 4.5), _written(1.5, 3), _written(1.75, 2)]
    assert _spared(back) == ["at 1.5"]
    replaced = [_written(1, 4), _written(1.25, 3, timeline=2), _written(1.5, 2, timeline=2), _written(1.75, 1, 1, 2)]
    assert _spared(replaced) == ["at 1.5"]


def test_every_time_of_the_window_keeps_a_base() -> None:
    known = [snapshot(hours / 24) for hours in range(24 * 12)]
    kept = kept_of(known)
    for hours in range(7 * 24):
        base = base_for(kept, NOW - timedelta(hours=hours, minutes=1))
        assert base is not None
        assert NOW - timedelta(hours=hours) - base.taken_at <= timedelta(days=1, hours=1)


def test_snapshots_are_thinned_with_age() -> None:
    known = [snapshot(minutes / 1440) for minutes in range(0, 10 * 1440, 10)]
    kept = kept_of(known)
    ages = [NOW - s.taken_at for s in kept]
    assert sum(age < timedelta(hours=1) for age in ages) == 6
    assert 22 <= sum(timedelta(hours=1) <= age < timedelta(days=1) for age in ages) <= 25
    assert 6 <= sum(age >= timedelta(days=1) for age in ages) <= 9


def test_the_first_snapshot_of_each_timeline_is_kept_of_an_hour_in_which_the_data_was_replaced() -> None:
    known = [snapshot(minutes / 1440) for minutes in (115, 100, 85, 70, 0)]
    known = [replace(one, timeline=1 if number < 2 else 2) for number, one in enumerate(known)]
    assert kept_of(known) == [known[0], known[2], known[4]]
    target = known[3].taken_at
    chosen = base_for(kept_of(known), target)
    assert chosen is not None
    assert chosen.timeline == 2


def test_thinning_again_a_little_later_retires_nothing_that_was_kept_for_its_slot() -> None:
    known = [snapshot(hours / 24) for hours in range(24 * 6)]
    kept = kept_of(known)
    assert len(retired(kept, NOW + timedelta(minutes=1), WINDOW)) <= 2


def test_order_is_by_the_wal_where_the_clock_went_back() -> None:
    ahead = replace(snapshot(0), id="ahead", end_lsn="0/3")
    after = replace(snapshot(1), id="after", end_lsn="0/4")
    first = replace(snapshot(2), id="first")
    known = [after, ahead, first]
    assert in_wal_order(known) == [first, ahead, after]
    assert newest(known) == after
    assert base_for(known, NOW) == after
    assert base_for(known, NOW - timedelta(days=1.5)) == first
    assert clock_steps(known) == [ClockStep(NOW, NOW - timedelta(days=1))]
    assert clock_steps([first, after]) == []


def test_snapshots_after_the_base_in_the_wal_are_kept_whatever_their_time() -> None:
    known = [replace(snapshot(8), end_lsn="0/3"), replace(snapshot(20), id="back", end_lsn="0/4")]
    assert retired(known, NOW, WINDOW) == [known[0]]


def test_an_lsn_is_a_number_of_bytes() -> None:
    assert lsn_number("1/A") == (1 << 32) + 10
