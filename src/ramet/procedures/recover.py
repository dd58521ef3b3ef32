"""Recover a service from the off-host archive, on a host that has nothing of it.

step     leaves behind                                          undo
choose   the base backup to begin with                          -
fetch    base backup and WAL, staged beside the volume          destroy
capture  the volume; what was staged is removed                 (destroy)
recover  the wanted state, cleanly stopped, on a new timeline   (destroy)
boot     a server, closed to clients; its files are flushed; it
         does not subscribe any more to a source it followed,
         and has no logins of keys                              (destroy)
stop     a stopped server; PAUSED, if it was paused             (destroy)
start    a server with all its jobs, closed to clients          (destroy)
open     an open endpoint: READY                                -

Roles and passwords stay as they are, and nothing is neutralized: the service takes the place of the lost one.
The first snapshot, of which the next base backup is uploaded, and the read replica sets follow in the last transaction.
"""

import dataclasses
from datetime import datetime, timedelta

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.backends.interface.values import Capture, Server, Source
from ramet.errors import Failed, Unavailable
from ramet.model.fork_report import CaptureFacts
from ramet.model.gaps import Gap
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import SnapshotKind
from ramet.model.timestamps import parse_timestamp, rfc3339
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.replicas import submit_for_set
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Creation,
    boot,
    finish,
    publish,
    recover,
    retry_if_server_killed,
    submit_snapshot,
    unless_rebooted,
)
from ramet.procedures.state import RecoverState, Restartable
from ramet.store import replica_sets, services

_MICROSECOND = timedelta(microseconds=1)
_NO_ARCHIVE = Wait(1.0, "RAMET_ARCHIVE_URL is not set, and must name the archive")


class Recover(Creation):
    """The steps of `recover`."""

    name = ProcedureName.RECOVER
    undo_fetch = Creation.destroy

    def choose(self, work: Work[RecoverState]) -> Outcome:
        archive, target = self.tools.backend.archive, work.state.target
        if archive.url() is None:
            return _NO_ARCHIVE
        try:
            base = archive.holdings(self.tools.server(work)).base_for(target)
        except Unavailable as error:
            return Wait(1.0, str(error))
        if base is None:
            when = "" if target is None else f" from before {rfc3339(target)}"
            raise Failed(ARCHIVE_INCOMPLETE, f"The archive has no base backup of service {work.subject}{when}")
        return Next("fetch", replace(work.state, base_backup_id=base.id))

    def fetch(self, work: Work[RecoverState]) -> Outcome:
        archive = self.tools.backend.archive
        if archive.url() is None:
            return _NO_ARCHIVE
        progress = archive.fetch(self.tools.server(work), self._source(work), PATIENCE_SECONDS)
        return Next("capture") if progress is None else Wait(0, progress)

    def capture(self, work: Work[RecoverState]) -> Outcome:
        captured = self.tools.backend.restore.capture(self.tools.server(work), self._source(work))
        if captured is None:
            return Wait(0.2, "what was fetched cannot be read now")
        return Next("recover", replace(work.state, capture=_noted(captured, work.state.target)))

    def recover(self, work: Work[RecoverState]) -> Outcome:
        server = self.tools.server(work)
        return unless_rebooted(lambda: recover(self.tools, work, server), lambda: _fetch_again(work))

    def boot(self, work: Work[RecoverState]) -> Outcome:
        server = self.tools.server(work)
        booting = unless_rebooted(lambda: boot(self.tools, work, server, first=True), lambda: _fetch_again(work))
        if booting is not None:
            return booting
        return retry_if_server_killed(work, lambda: self._part(server)) or Next("stop")

    def _part(self, server: Server) -> None:
        """Remove what only the lost host could end: a subscription, and the logins, which no catalogue has."""
        self.tools.backend.subscriptions.detach(server)
        self.tools.backend.logins.drop_all(server)

    def stop(self, work: Work[RecoverState]) -> Outcome:
        """Stop the server, whose first start has held its jobs back."""
        self.tools.backend.servers.stop(self.tools.server(work))
        if work.state.paused:
            return Done(changes=lambda tx: self._record(tx, work))
        return Next("start")

    def start(self, work: Work[RecoverState]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work)) or Next("open")

    def open(self, work: Work[RecoverState]) -> Outcome:
        return publish(self.tools, work, lambda tx: self._record(tx, work), again="start")

    def _record(self, tx: sa.Connection, work: Work[RecoverState]) -> None:
        now, known = self.tools.clock(), self.tools.service(work.subject).archive_gaps
        gaps = services.gaps_column([*known, *_lost(work.state, now)])
        finish(tx, work, ready_at=now, paused=work.state.paused, down_reason=None, archive_gaps=gaps)
        submit_snapshot(tx, work.subject, SnapshotKind.INITIAL)
        for each in replica_sets.live_sets(tx, work.subject):
            submit_for_set(tx, each, ProcedureName.CREATE_REPLICAS, Restartable())

    def on_failed(self, tx: sa.Connection, work: Work[RecoverState], error: str) -> None:
        # Who deletes what failed here does not want its archive removed.
        finish(tx, work, failed_at=self.tools.clock(), failure=error, recovered=False)
        for each in replica_sets.live_sets(tx, work.subject):
            replica_sets.update_set(tx, each.id, deleted_at=self.tools.clock())

    def _source(self, work: Work[RecoverState]) -> Source:
        return Source(self.tools.server(work), target=work.state.target, base_backup_id=work.state.base_backup_id)


def _noted(captured: Capture, target: datetime | None) -> Capture:
    """Return what was captured, with a note where the archive may end before the time that was asked for."""
    last = _last_known(captured, target)
    if target is None or last is None or last >= target:
        return captured
    download = captured.facts.get("archive") or {}
    ends = (
        f"The archive has no commit after {rfc3339(last)}: whether the lost service had one until {rfc3339(target)} is"
        " not known"
    )
    notes = ". ".join(filter(None, (ends, download.get("unread"))))
    return dataclasses.replace(captured, facts=captured.facts | {"archive": {**download, "unread": notes}})


def _lost(state: RecoverState, until: datetime) -> list[Gap]:
    """Return the times before the recovery at which the lost service may have had what the archive does not have."""
    begins_at = _last_known(state.captured(), state.target)
    # At the time of the last commit itself the archive does not say whether another one was lost.
    if begins_at is not None and begins_at != state.target:
        begins_at -= _MICROSECOND
    return [] if begins_at is None else [Gap(begins_at, until, "the service was lost, and recovered to the beginning")]


def _last_known(captured: Capture, target: datetime | None) -> datetime | None:
    """Return until when the archive has all: a target that has a commit after it, else the last commit."""
    facts = msgspec.convert(captured.facts, CaptureFacts)
    if target is not None and (facts.cut is None or facts.cut.first_excluded is not None):
        return target
    last = None if facts.cut is None else facts.cut.last_included
    since = facts.base_time if last is None else last.time
    return None if since is None else parse_timestamp("time", since)


def _fetch_again(work: Work[RecoverState]) -> Next:
    return Next("fetch", replace(work.state, capture=None, recovery=None))
