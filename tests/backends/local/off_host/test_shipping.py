"""Until when a service is archived, by what was seen of its server."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from ramet.archive.object_store import open_bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server, SnapshotFacts
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host import shipping
from ramet.backends.local.off_host.base_uploads import is_due
from ramet.backends.local.off_host.progress import Base, BaseProgress, Hole, WalProgress, write_progress
from ramet.backends.local.off_host.shipping import Seen, Watch
from ramet.backends.local.restore.base_backup import Base as LocalBase
from ramet.backends.local.restore.snapshots import directory_of, record
from ramet.backends.local.sql import connections
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, shown_lsn
from tests.backends.local.forks import append, paths_of
from tests.backends.local.segments import DISK_FAULTS, make_unreadable, write_segment

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=5)


@pytest.mark.parametrize(("number", "until"), [(3, AT), (2, None)])
def test_a_time_is_archived_with_the_wal_before_it(number: int, until: datetime | None) -> None:
    watch = Watch([Seen(AT, 4 * SEGMENT_BYTES, "700:700:")])
    assert watch.archived_until(Segment(1, number), 1) == until


@pytest.mark.parametrize(
    ("last", "base_timeline", "until"),
    [
        (Segment(1, 9), 1, AT),
        (Segment(2, 3), 1, AT),
        (Segment(1, 9), 2, AT),
        (Segment(2, 2), 2, AT),
        (Segment(2, 3), 2, LATER),
    ],
)
def test_after_a_restore_in_place_a_time_is_archived_with_a_base_backup_of_its_timeline(
    last: Segment, base_timeline: int, until: datetime
) -> None:
    watch = Watch([Seen(AT, 1000, "700:700:"), Seen(LATER, 4 * SEGMENT_BYTES, "700:700:", timeline=2)])
    assert watch.archived_until(last, base_timeline) == until


@pytest.mark.parametrize(
    ("begin", "is_closed"), [(Segment(1, 4), False), (Segment(1, 6), True), (Segment(2, 4), True), (None, True)]
)
def test_a_base_backup_after_a_hole_closes_it_also_one_of_a_later_timeline(
    begin: Segment | None, is_closed: bool
) -> None:
    hole = Hole(Segment(1, 4).name, Segment(1, 6).name, AT)
    progress = WalProgress(segment=Segment(2, 9).name, holes=(hole,))
    name, number = ("", 6) if begin is None else (begin.name, begin.number)
    base = Base("", LATER, shown_lsn(number * SEGMENT_BYTES), begin_segment=name)
    (seen,) = shipping.bridged(progress, base).holes
    assert seen.until == (LATER if is_closed else None)


def test_a_base_backup_is_due_once_the_timeline_of_the_last_one_was_left() -> None:
    base = Base("20260101T000000", AT, "0/3000000", "0/3000100", "000000010000000000000003")
    bases, before = BaseProgress(newest=base), WalProgress("000000010000000000000004", ("00000001.history",))
    assert not is_due(bases, before, AT)
    assert is_due(bases, replace(before, other_files=("00000002.history",)), AT)
    assert is_due(bases, replace(before, segment="000000020000000000000001"), AT)


@pytest.mark.parametrize(
    ("following", "is_lost"), [(Segment(2, 4), False), (Segment(2, 5), False), (Segment(2, 6), True)]
)
def test_wal_that_was_lost_before_a_service_left_its_timeline_is_a_hole(
    tmp_path: Path, following: Segment, is_lost: bool
) -> None:
    paths = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    paths.archive.mkdir(parents=True)
    (tmp_path / "nas").mkdir()
    with (paths.archive / following.name).open("wb") as file:
        file.truncate(SEGMENT_BYTES)
    write_progress(paths, WalProgress(segment=Segment(1, 4).name, archived_until=AT))
    progress = shipping.ship(paths, WalArchive(open_bucket((tmp_path / "nas").as_uri()), "service"), 60)
    assert progress.segment == following.name
    assert progress.holes == ((Hole(Segment(2, 5).name, following.name, AT),) if is_lost else ())


@pytest.mark.parametrize(
    ("following", "is_lost"), [(Segment(2, 50), False), (Segment(2, 51), True), (Segment(2, 102), True)]
)
def test_wal_that_was_lost_after_the_first_snapshot_of_a_return_to_an_earlier_lsn_is_a_hole(
    tmp_path: Path, following: Segment, is_lost: bool
) -> None:
    paths = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    paths.archive.mkdir(parents=True)
    (tmp_path / "nas").mkdir()
    for timeline, number in ((1, 40), (2, 50), (2, 60)):
        lsn, name = shown_lsn(number * SEGMENT_BYTES + 1000), f"of-{timeline}-{number}"
        directory_of(paths, name).mkdir(parents=True)
        record(paths, name, LocalBase(SnapshotFacts(AT, lsn, lsn, timeline, 700, 0), 1, True, {}))
    with (paths.archive / following.name).open("wb") as file:
        file.truncate(SEGMENT_BYTES)
    write_progress(paths, WalProgress(segment=Segment(1, 100).name, archived_until=AT))
    progress = shipping.ship(paths, WalArchive(open_bucket((tmp_path / "nas").as_uri()), "service"), 60)
    assert progress.segment == following.name
    assert progress.holes == ((Hole(Segment(2, 50).name, following.name, AT),) if is_lost else ())


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_a_segment_that_no_restore_needs_and_the_disk_keeps_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    paths = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    paths.archive.mkdir(parents=True)
    (tmp_path / "nas").mkdir()
    for segment in (Segment(1, 3), Segment(1, 7)):
        write_segment(paths.archive, segment)
    digests.discard(paths, 1, "0/7000028")
    make_unreadable(monkeypatch, paths.archive / Segment(1, 3).name, number)
    progress = shipping.ship(paths, WalArchive(open_bucket((tmp_path / "nas").as_uri()), "service"), 60)
    assert (progress.segment, progress.holes) == (Segment(1, 7).name, ())
    assert shipping.waiting_segments(paths, progress) == 0


def test_one_that_the_disk_keeps_is_not_awaited_either(tmp_path: Path) -> None:
    paths = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    paths.archive.mkdir(parents=True)
    (tmp_path / "nas").mkdir()
    for segment in (Segment(1, 3), Segment(1, 7)):
        write_segment(paths.archive, segment)
    digests.discard(paths, 1, "0/7000028")
    write_progress(paths, WalProgress(segment=Segment(1, 2).name, archived_until=AT))
    progress = shipping.ship(paths, WalArchive(open_bucket((tmp_path / "nas").as_uri()), "service"), 60)
    assert progress.holes == (Hole(Segment(1, 3).name, Segment(1, 7).name, AT),)


@pytest.mark.parametrize(("seconds", "wants"), [(44, False), (46, True)])
def test_the_segment_of_what_has_waited_is_closed(seconds: int, wants: bool) -> None:
    waiting = [Seen(AT, 1000, "700:700:"), Seen(AT + timedelta(seconds=seconds), 2000, "701:701:")]
    assert Watch(waiting, Seen(AT, 500, "699:699:")).wants_switch() is wants


def test_the_first_segment_of_an_archive_is_closed_at_once_and_none_where_nothing_waits() -> None:
    assert Watch([Seen(AT, 1000, "700:700:")]).wants_switch()
    assert not Watch([], Seen(AT, 500, "699:699:")).wants_switch()


@pytest.mark.parametrize(("commits_every", "most"), [(1, 80), (720, 2)])
def test_a_segment_is_closed_once_a_minute_at_most_while_nothing_is_archived(commits_every: int, most: int) -> None:
    watch, lsn, switches = Watch(), 3 * SEGMENT_BYTES, 0
    for number in range(720):  # each five seconds of an hour
        lsn += 100
        watch.add(Seen(AT + number * timedelta(seconds=5), lsn, str(number // commits_every)))
        if watch.wants_switch():
            lsn = (lsn // SEGMENT_BYTES + 1) * SEGMENT_BYTES
            switches += 1
    assert 1 <= switches <= most


def test_a_segment_that_was_closed_and_not_sent_yet_is_no_reason_to_close_the_next_one() -> None:
    watch = Watch([Seen(AT, 1000, "700:700:")], Seen(AT, 500, "699:699:"))
    watch.add(Seen(AT + timedelta(seconds=50), SEGMENT_BYTES + 1000, "701:701:"))
    assert not watch.wants_switch()


@pytest.mark.parametrize(("needed_lsn", "wants"), [(1000, False), (SEGMENT_BYTES + 1, True)])
def test_a_segment_in_which_nothing_was_committed_is_closed_for_a_base_backup_alone(
    needed_lsn: int, wants: bool
) -> None:
    watch = Watch([Seen(AT, 1000, "700:700:")])
    for seconds in (5, 51):
        watch.add(Seen(AT + timedelta(seconds=seconds), SEGMENT_BYTES + 1000, "700:700:"))
    assert watch.wants_switch(needed_lsn) is wants


def test_after_a_switch_no_wal_of_the_new_segment_is_waited_for(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("CHECKPOINT")
        found = set()
        for _ in range(20):  # the server may write a record just then
            connection.execute("SELECT pg_switch_wal()")
            seen = shipping.see(paths_of(backend, parent))
            assert seen is not None
            found.add(seen.lsn % SEGMENT_BYTES)
    assert 0 in found
