"""The archived WAL of services: closing a segment, waiting for it, and which segments there are.

The operator's plugin archives each segment under the service's own name in the bucket. This process only looks there.
"""

import time

from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.sql.connections import row
from ramet.backends.local.wal.segment import Segment, segment_before, segment_named
from ramet.errors import Unavailable

_LOOK_SECONDS = 0.2
_SWITCH = """
SELECT (SELECT timeline_id FROM pg_control_checkpoint()), pg_current_wal_insert_lsn()::text, pg_switch_wal()::text
"""


def wal_of(place: Place, name: str) -> WalArchive:
    """Return the WAL below a name in the archive."""
    if place.bucket is None:
        raise AssertionError("BUG: there is no archive")
    return WalArchive(place.bucket, name)


def close_segment(place: Place, server: Server) -> Segment:
    """End the WAL segment that a server writes, if it has written there; return the last one with WAL of now."""
    with place.connect(server) as connection:
        timeline, written, _ = row(connection, _SWITCH)
    return segment_before(timeline, written)


def await_archived(place: Place, server: Server, segment: Segment, timeout_seconds: float) -> None:
    """Wait until the archive has a segment. Raises Unavailable while it does not."""
    archive, deadline = wal_of(place, server.archive_name), time.monotonic() + timeout_seconds
    while not archive.has(segment.name):
        if time.monotonic() > deadline:
            raise Unavailable(
                "ARCHIVE_BEHIND",
                f"WAL segment {segment.name} of service {server.service_id} is not in the archive yet",
                "The log of the container plugin-barman-cloud in its pod says why, if that lasts.",
            )
        time.sleep(_LOOK_SECONDS)


def segments_of(place: Place, name: str, after: str | None = None) -> list[Segment]:
    """Return the archived segments below a name, in order; with `after` those after that one."""
    found = (segment_named(one) for one in wal_of(place, name).sizes(after))
    return sorted(one for one in found if one is not None)


def newest_by_number(segments: list[Segment]) -> dict[int, Segment]:
    """Return the segment of the newest timeline of each number.

    All timelines below a name are one line of descent: a later one begins with what the one before had until then.
    What an earlier one has behind that is not of the line: a primary may have archived it that another one replaced.
    """
    found: dict[int, Segment] = {}
    newest = {one.number: one for one in sorted(segments)}
    timeline = 0
    for number, one in sorted(newest.items()):
        if one.timeline >= timeline:
            found[number], timeline = one, one.timeline
    return found
