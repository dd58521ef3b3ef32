"""Until when a service is archived, by what was seen of its server."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host import shipping
from ramet.backends.local.off_host.shipping import Seen, Watch
from ramet.backends.local.sql import connections
from ramet.backends.local.wal.segment import SEGMENT_BYTES
from tests.backends.local.forks import append, paths_of

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("end", "until"), [(4 * SEGMENT_BYTES, AT), (4 * SEGMENT_BYTES - 1, None)])
def test_a_time_is_archived_with_the_wal_before_it(end: int, until: datetime | None) -> None:
    watch = Watch([Seen(AT, 4 * SEGMENT_BYTES, "700:700:")])
    assert watch.archived_until(end) == until


@pytest.mark.parametrize(("seconds", "wants"), [(44, False), (46, True)])
def test_the_segment_of_what_has_waited_is_closed(seconds: int, wants: bool) -> None:
    waiting = [Seen(AT, 1000, "700:700:"), Seen(AT + timedelta(seconds=seconds), 2000, "701:701:")]
    assert Watch(waiting, Seen(AT, 500, "699:699:")).wants_switch() is wants


def test_the_first_segment_of_an_archive_is_closed_at_once_and_none_where_nothing_waits() -> None:
    assert Watch([Seen(AT, 1000, "700:700:")]).wants_switch()
    assert not Watch([], Seen(AT, 500, "699:699:")).wants_switch()


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
