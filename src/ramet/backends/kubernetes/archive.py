"""The off-host archive: the operator's plugin writes it, this process observes, verifies and cleans it up."""

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Holdings, Server, Source
from ramet.backends.kubernetes import archiving, base_backups, names, past, retention, stopped
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.past import Base
from ramet.backends.kubernetes.resources import Cluster
from ramet.backends.local.sql.connections import row
from ramet.backends.local.wal.segment import end_of_records, segment_named
from ramet.errors import Failed, Unavailable, Unseen

_BASES_SECONDS = 30.0
_MOST_SAMPLES = 1000
# After a commit nothing follows in WAL for as long as a service is idle: its segment is closed for the archive.
_SWITCH_SECONDS = 60.0
# The time is before that of the snapshot. What had ended by then is in WAL before the LSN.
_POSITION = """
SELECT now(), pg_current_wal_insert_lsn()::text,
       left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || pg_current_snapshot()::text, last_archived_wal,
       failed_count > 0 AND last_failed_time > coalesce(last_archived_time, '-infinity'), last_failed_wal
FROM pg_stat_archiver
"""


@dataclass
class _Seen:
    """What is known of a service's archive: samples of its WAL position that are not archived yet, and base backups.

    `transactions` are those of the newest sample, with the timeline: while they are the same, none has ended, and what
    PostgreSQL itself writes, such as that it was idle, is no reason to archive. `switched` is where WAL was when its
    segment was closed last, `reached` the end of what was archived.
    `whole` is the last segment of a stopped server, once the archive has it.
    """

    samples: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=_MOST_SAMPLES))
    transactions: str = ""
    switched: int = 0
    reached: int = 0
    archived_until: datetime | None = None
    base_taken_at: datetime | None = None
    looked_at: float = -_BASES_SECONDS
    waits_since: float | None = None
    failed: str | None = None
    whole: str = ""


@dataclass(frozen=True)
class _Checked:
    """The last segment that was read back in this round of checks, and the damage that was found in it or the last one.

    It is noted with the Cluster: any process may check next, and each of them may record the state of the archive.
    """

    segment: str | None = None
    damage: str | None = None
    is_of_this_round: bool = False


@dataclass(frozen=True)
class KubernetesArchive:
    """WAL and base backups in the bucket; obeys ramet.backends.interface.archive.Archive."""

    place: Place
    _known: dict[tuple[str, str], _Seen] = field(default_factory=dict)

    def url(self) -> str | None:
        return None if self.place.bucket is None else self.place.bucket.url

    def is_needed(self) -> bool:
        return True

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Observe how far the archive is, ask for a base backup when one is due, and close the segment of an idle one.

        What was committed before a sample of the WAL position is archived once the segment of that position is. Raises
        Failed where the server does not answer: Unavailable would say that the archive does not, for any service.
        """
        seen = self._seen(server)
        self._look_for_bases(server, seen, serves=not paused)
        checked = _noted_check(self.place.clusters.get(names.cluster_name(server.service_id)))
        problem = checked.damage or seen.failed
        if paused:
            self._observe_stopped(server, seen)
        else:
            with _saying_nothing_of_the_archive():
                problem = self._observe(server, seen) or problem
        if seen.base_taken_at is None:
            return ArchiveState(problem=problem or f"The archive {self.url()} has no complete base backup yet")
        until = seen.archived_until
        return ArchiveState(
            until if until is None or until >= seen.base_taken_at else None, seen.base_taken_at, problem
        )

    def is_sending(self, server: Server) -> bool:
        """Return False: the operator's plugin sends, and no change of a service disturbs it."""
        return False

    def discard(self, server: Server, before: datetime) -> None:
        retention.discard(self.place, server.service_id, server.archive_name, before)

    def remove(self, server: Server) -> None:
        retention.remove(self.place, server.service_id, server.archive_name)
        self.forget(server.service_id)
        self._note_check(server, _Checked())

    def forget(self, service_id: str) -> None:
        """Forget what was seen of a service, under whatever name it is in the archive."""
        for key in [key for key in list(self._known) if key[0] == service_id]:
            self._known.pop(key, None)

    def check(self, server: Server, budget_bytes: int) -> int:
        """Read back the WAL that comes next. What is damaged is said by `maintain`."""
        checked, read = _noted_check(self.place.cluster_of(server.service_id)), 0
        archive = archiving.wal_of(self.place, server.archive_name)
        for name, size in sorted(archive.sizes(checked.segment).items()):
            try:
                archive.download(name)
            except Failed as error:
                if error.code != ARCHIVE_INCOMPLETE:  # what was listed a moment ago was removed by a clean-up
                    checked = replace(checked, damage=str(error), is_of_this_round=True)
            checked, read = replace(checked, segment=name), read + size
            if read >= budget_bytes:
                break
        else:
            checked = _Checked(damage=checked.damage if checked.is_of_this_round else None)
        self._note_check(server, checked)
        return read

    def _note_check(self, server: Server, checked: _Checked) -> None:
        cluster = self.place.cluster_of(server.service_id)
        if cluster is not None and _noted_check(cluster) != checked:
            noted = {names.CHECKED_ANNOTATION: json.dumps(asdict(checked))}
            self.place.api.patch(Cluster, cluster.metadata.name, {"metadata": {"annotations": noted}})

    def holdings(self, server: Server) -> Holdings:
        return base_backups.holdings(self.place, server.archive_name)

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Bring WAL that is read here; the operator's job downloads. Raises Failed when the base backup is gone."""
        return past.bring(self.place, child, source, self.base_of(source), timeout_seconds)

    def base_of(self, source: Source) -> Base:
        """Return the base backup that a fork begins with."""
        return base_backups.base_in_archive(self.place, source.parent.archive_name, source.base_backup_id or "")

    def _seen(self, server: Server) -> _Seen:
        return self._known.setdefault((server.service_id, server.archive_name), _Seen())

    def _look_for_bases(self, server: Server, seen: _Seen, *, serves: bool) -> None:
        if time.monotonic() - seen.looked_at < _BASES_SECONDS:
            return
        known = base_backups.complete(self.place, server.archive_name)
        newest = known[-1] if known else None
        seen.base_taken_at = None if newest is None else newest.end_time
        if serves:
            seen.failed = base_backups.ask_for_one(self.place, server.service_id, newest)
        # While the first one is under way, it is looked for again soon.
        seen.looked_at = time.monotonic() - (0.0 if known else _BASES_SECONDS - 2.0)

    def _observe(self, server: Server, seen: _Seen) -> str | None:
        with self.place.connect(server) as connection:
            now, position, transactions, archived, is_failing, failed = row(connection, _POSITION)
            written = end_of_records(position)
            if seen.transactions != transactions:
                seen.samples.append((now, written))
                seen.transactions = transactions
            segment = segment_named(archived or "")
            reached = 0 if segment is None else segment.end
            if reached < seen.reached:  # a crash loses what was counted: only another segment tells
                seen.switched = 0
            seen.reached = reached
            while seen.samples and seen.samples[0][1] <= reached:
                seen.archived_until, _ = seen.samples.popleft()
            if not seen.samples:
                seen.archived_until, seen.waits_since = now, None
            elif seen.waits_since is None:
                seen.waits_since = time.monotonic()
            elif time.monotonic() - seen.waits_since >= _SWITCH_SECONDS and seen.switched < seen.samples[-1][1]:
                connection.execute("SELECT pg_switch_wal()")
                seen.waits_since, seen.switched = time.monotonic(), written
        if is_failing:
            return (
                f"WAL segment {failed} cannot be archived; the log of its pod's container plugin-barman-cloud says why"
            )
        return None

    def _observe_stopped(self, server: Server, seen: _Seen) -> None:
        """Note that all of a stopped server is archived, if its last segment is."""
        now = datetime.now(UTC)
        with _saying_nothing_of_the_archive():
            last = stopped.last_segment(self.place, server)
        if last is not None and seen.whole != last and archiving.wal_of(self.place, server.archive_name).has(last):
            seen.whole = last
        if last is not None and seen.whole == last:
            seen.archived_until = now


def _noted_check(cluster: Cluster | None) -> _Checked:
    annotations = {} if cluster is None else cluster.metadata.annotations
    return _Checked(**json.loads(annotations.get(names.CHECKED_ANNOTATION, "{}")))


@contextmanager
def _saying_nothing_of_the_archive() -> Iterator[None]:
    """Raise Failed where a server or a pod is not available."""
    try:
        yield
    except Unseen:
        raise
    except Unavailable as error:
        raise Failed(error.code, error.message, error.details) from error
