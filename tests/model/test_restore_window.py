"""The restore window, from snapshots and gaps alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ramet.errors import Invalid
from ramet.model.archive import ArchiveSpan
from ramet.model.gaps import Gap, check_gaps
from ramet.model.restore_window import (
    BOUNDS,
    RestoreSettings,
    defaults_for,
    is_sparing,
    restore_window,
    settings_of,
    with_settings,
)
from ramet.model.snapshot import Snapshot, SnapshotKind, base_for

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SETTINGS = RestoreSettings()


def snapshot(time: datetime, kind: SnapshotKind = SnapshotKind.SCHEDULED) -> Snapshot:
    return Snapshot(str(time), "s", kind, time, "0/1000000", "0/2000000", 1, 700, 1)


def test_a_manual_snapshot_older_than_the_window_is_no_base() -> None:
    known = [snapshot(NOON - 9 * HOUR, SnapshotKind.MANUAL), snapshot(NOON - 2 * HOUR)]
    assert restore_window(known, [], SETTINGS, NOON).earliest == NOON - 2 * HOUR
    assert base_for(known, NOON - 3 * HOUR) is None


def test_a_manual_snapshot_inside_the_window_is_a_base() -> None:
    manual = snapshot(NOON - HOUR, SnapshotKind.MANUAL)
    assert base_for([snapshot(NOON - 2 * HOUR), manual], NOON) == manual


def test_without_a_snapshot_there_is_no_window() -> None:
    window = restore_window([], [], SETTINGS, NOON)
    assert (window.earliest, window.latest) == (None, None)


@pytest.mark.parametrize("time", [NOON - 2 * HOUR, NOON - HOUR])
def test_the_ends_of_a_gap_can_be_restored(time: datetime) -> None:
    check_gaps([Gap(NOON - 2 * HOUR, NOON - HOUR, "It is missing")], time)


def test_a_time_inside_a_gap_is_refused() -> None:
    with pytest.raises(Invalid, match=r"2026-01-15T10:00:00\.000000Z until 2026-01-15T11"):
        check_gaps([Gap(NOON - 2 * HOUR, NOON - HOUR, "It is missing")], NOON - 1.5 * HOUR)


def test_only_what_differs_from_the_installation_is_stored() -> None:
    stored = with_settings({"other": 1}, SETTINGS, {"window_days": 30, "snapshot_interval_seconds": 600})
    assert stored == {"other": 1, "restore": {"window_days": 30}}
    assert settings_of(stored, RestoreSettings(snapshot_wal_bytes=5)) == RestoreSettings(30, 600, 5)


def test_a_snapshot_that_is_a_copy_is_due_after_as_much_wal_as_it_has_data() -> None:
    small, large = snapshot(NOON), replace(snapshot(NOON), size_bytes=10**10)
    assert defaults_for(SETTINGS, "copy", large).snapshot_wal_bytes == 10**10
    for volume_type, last in (("copy", small), ("copy", None), ("reflink", large)):
        assert defaults_for(SETTINGS, volume_type, last) == SETTINGS


def test_a_service_with_its_own_settings_gets_its_snapshots_when_these_say() -> None:
    defaults = defaults_for(SETTINGS, "copy", replace(snapshot(NOON), size_bytes=10**10))
    stored = with_settings({}, defaults, {"snapshot_wal_bytes": SETTINGS.snapshot_wal_bytes})
    assert settings_of(stored, defaults) == SETTINGS
    assert not is_sparing("copy", stored)
    assert is_sparing("copy", with_settings({}, defaults, {"window_days": 30}))
    assert not is_sparing("reflink", {})


def test_a_window_ends_where_a_gap_that_is_still_open_begins() -> None:
    known, gaps = [snapshot(NOON - 2 * HOUR)], [Gap(NOON - HOUR, None, "It is missing")]
    window = restore_window(known, gaps, SETTINGS, NOON)
    assert (window.earliest, window.latest) == (NOON - 2 * HOUR, NOON - HOUR)
    assert restore_window(known, [Gap(NOON - HOUR, NOON, "It was missing")], SETTINGS, NOON).latest == NOON


def test_a_window_shows_what_it_was_made_from() -> None:
    known, gaps = [snapshot(NOON - 2 * HOUR)], [Gap(NOON - HOUR, NOON, "It is missing")]
    window = restore_window(known, gaps, SETTINGS, NOON)
    assert (window.snapshots, window.gaps, window.settings, window.clock_steps) == (known, gaps, SETTINGS, [])


# Hours before noon: the archive has 20 to 4 except a hole, snapshots begin at 6.
HOLE = Gap(NOON - 15 * HOUR, NOON - 12 * HOUR, "WAL segment 3 was lost")
ARCHIVE = ArchiveSpan(NOON - 20 * HOUR, NOON - 4 * HOUR, [HOLE])


def test_times_that_the_archive_has_lost_are_gaps_before_the_first_snapshot() -> None:
    window = restore_window([snapshot(NOON - 6 * HOUR)], [], SETTINGS, NOON, ARCHIVE)
    assert (window.earliest, window.latest, window.gaps) == (NOON - 20 * HOUR, NOON, [HOLE])


def test_times_that_the_archive_has_lost_are_no_gaps_where_snapshots_have_them() -> None:
    window = restore_window([snapshot(NOON - 14 * HOUR)], [], SETTINGS, NOON, ARCHIVE)
    assert window.gaps == [HOLE.until(NOON - 14 * HOUR)]
    assert restore_window([snapshot(NOON - 15 * HOUR)], [], SETTINGS, NOON, ARCHIVE).gaps == []


@pytest.mark.parametrize(
    ("begin", "end", "left"),
    [
        (19, 18, []),
        (19, 13, [(15, 13)]),
        (16, 10, [(15, 12)]),
        (14, 13, [(14, 13)]),
        (14, 10, [(14, 12)]),
        (22, 2, [(22, 20), (15, 12), (4, 2)]),
        (3, None, [(3, None)]),
        (14, None, [(14, 12), (4, None)]),
    ],
)
def test_of_a_gap_in_local_wal_what_the_archive_does_not_have_is_left(
    begin: int, end: int | None, left: list[tuple[int, int | None]]
) -> None:
    def at(hours: int | None) -> datetime | None:
        return None if hours is None else NOON - hours * HOUR

    known = [snapshot(NOON - 22 * HOUR)]
    gap = Gap(NOON - begin * HOUR, at(end), "It is missing")
    window = restore_window(known, [gap], SETTINGS, NOON, ARCHIVE)
    assert [(found.begins_at, found.ends_at) for found in window.gaps] == [(at(a), at(b)) for a, b in left]


@pytest.mark.parametrize("name", BOUNDS)
def test_a_setting_may_have_the_ends_of_its_range_and_nothing_beyond(name: str) -> None:
    low, high = BOUNDS[name]
    for value in (low, high):
        assert getattr(settings_of(with_settings({}, SETTINGS, {name: value}), SETTINGS), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(Invalid, match=f"{name} .*{low}.*{high}.*{value}") as refusal:
            with_settings({}, SETTINGS, {name: value})
        assert refusal.value.code == "INVALID_FIELD"
