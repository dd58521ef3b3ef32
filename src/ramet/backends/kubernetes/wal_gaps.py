"""The times between snapshots that cannot be restored, because the archive lacks WAL."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from ramet.backends.kubernetes import archiving
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment
from ramet.errors import Unavailable
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot, in_wal_order, lsn_number


def gaps(place: Place, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
    """Return the times after snapshots from which WAL is missing, each until the next snapshot behind that.

    What is behind the newest segment is no gap: a server that serves archives it for the fork that needs it.
    """
    ordered = in_wal_order(snapshots)
    times = [one.taken_at for one in ordered]
    try:
        there = _archived(place, service_id, ordered[0])
    except Unavailable as error:
        return [*_between(times, str(error)), Gap(times[-1], None, str(error))]
    found = []
    for one, following in pairwise(ordered):
        missing = next((n for n in _numbers(one, following) if n not in there), None)
        if missing is not None and max(there, default=-1) > missing:
            name = Segment(one.timeline, missing).name
            found.append(Gap(one.taken_at, following.taken_at, f"WAL segment {name} is missing from the archive"))
    return found


def _archived(place: Place, service_id: str, first: Snapshot) -> set[int]:
    before = Segment(first.timeline, max(0, _number(first) - 1))
    return set(archiving.newest_by_number(archiving.segments_of(place, service_id, before.name)))


def _numbers(one: Snapshot, following: Snapshot) -> range:
    """Return the segments between two snapshots; the last one may still be written."""
    return range(_number(one), _number(following))


def _number(snapshot: Snapshot) -> int:
    return lsn_number(snapshot.end_lsn) // SEGMENT_BYTES


def _between(times: Sequence[datetime], reason: str) -> Iterator[Gap]:
    return (Gap(one, following, reason) for one, following in pairwise(times) if one < following)
