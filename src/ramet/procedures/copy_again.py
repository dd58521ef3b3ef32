"""Copy the source of a standby again, when the standby cannot catch up any more, and follow with the new copy.

copy_again
step      leaves behind or does                                            undo
fetch     a second copy beside the data; the standby serves all the time,  discard it
          and is started again when it goes down
          Then replace_copy takes its place.

replace_copy
step      leaves behind or does                                            undo
settle    waits for forks that copy from the standby                       discard the copy
keep      a snapshot of the standby as it is, which is started for that    - (it stays)
replace   the new copy is the service's data                               -
boot      a standby that streams, closed to clients                        -
snapshot  the base of the restore window from now on                       -
open      READY, and read-only                                             -

Where the new copy continues the WAL that the service has, its restore window has a gap. Otherwise the source is on
another timeline: a new window begins, and what was before stays as one manual snapshot.
"""

import logging
from dataclasses import asdict, dataclass, field
from dataclasses import replace as with_values
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.servers import SERVER_KILLED
from ramet.backends.interface.values import Server
from ramet.errors import Failed, Unavailable, Unseen
from ramet.ids import new_id
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, SnapshotKind, lsn_number, newest
from ramet.model.source_copies import ended, in_words
from ramet.operations.procedure import Done, Next, NoState, Outcome, Wait, Work
from ramet.procedures.restarts import Restarts
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Steps,
    await_settled,
    boot,
    finish,
    repeats_from,
    server_of,
)
from ramet.procedures.spec import submit
from ramet.procedures.state import ReplaceCopyState
from ramet.store import services, snapshots

_PAUSE_SECONDS = 0.1
_NAME_BEFORE = "before its source was copied again"
_FAILURE_CHARACTERS = 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CopyAgain(Steps):
    """The step of `copy_again`. It remembers when it has started which standby."""

    name = ProcedureName.COPY_AGAIN
    _restarts: Restarts = field(default_factory=Restarts)

    def fetch(self, work: Work[NoState]) -> Outcome:
        server = self.tools.server(work)
        self._start_if_down(server)
        fetched = self.tools.backend.followers.copy_again(server, PATIENCE_SECONDS)
        if fetched.facts is None:
            return Wait(_PAUSE_SECONDS, fetched.progress)
        timeline, redo_lsn = fetched.facts["timeline"], fetched.facts["redo_lsn"]
        state = ReplaceCopyState(snapshot_id=new_id(), kept_id=new_id(), timeline=timeline, redo_lsn=redo_lsn)
        return Done(changes=lambda tx: _hand_on(tx, work, state))

    def _start_if_down(self, server: Server) -> None:
        """Start a standby that is down: its observer leaves it to this operation."""
        service_id, servers = server.service_id, self.tools.backend.servers
        observation = servers.inspect(server)
        if observation.serving:
            self._restarts.note_serving(service_id)
        elif self._restarts.is_due(service_id):
            self._restarts.log(
                service_id, f"server of service {service_id} is down, restarting it: {observation.reason}"
            )
            try:
                servers.start(server, clients=True)
            except Unseen:
                raise
            except (Failed, Unavailable) as error:  # the copy goes on, and will take its place
                _log.warning("server of service %s could not be started: %s", service_id, error)

    def undo_fetch(self, work: Work[Any]) -> None:
        self.tools.backend.followers.discard_copy(work.subject)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        _record(tx, work, self.tools.clock(), error)


class ReplaceCopy(Steps):
    """The steps of `replace_copy`."""

    name = ProcedureName.REPLACE_COPY

    def settle(self, work: Work[ReplaceCopyState]) -> Outcome:
        return await_settled(self.tools, work) or Next("keep")

    def undo_settle(self, work: Work[Any]) -> None:
        self.tools.backend.followers.discard_copy(work.subject)

    def keep(self, work: Work[ReplaceCopyState]) -> Outcome:
        try:
            starting = boot(self.tools, work, self.tools.server(work), clients=True)
        except Failed as failed:
            if failed.code == SERVER_KILLED:
                raise  # it may start another time, and may have what is nowhere else
            return self._keep_newest(work)
        if starting is not None:
            return starting
        state, kept = work.state, self._take(work, work.state.kept_id, SnapshotKind.SCHEDULED)
        if kept is None:
            return Wait(_PAUSE_SECONDS, "the server is not serving")
        continues = _continues(state, kept) and not _has_diverged(self.tools.service(work.subject))
        if not continues:
            kept = with_values(kept, kind=SnapshotKind.MANUAL, name=_NAME_BEFORE)
        changed = replace(state, continues=continues)
        return Next("replace", changed, changes=lambda tx: snapshots.insert_snapshot(tx, kept))

    def _keep_newest(self, work: Work[ReplaceCopyState]) -> Next:
        """Keep the newest snapshot of a standby that cannot be started."""
        last = newest(self._snapshots(work))
        continues = _continues(work.state, last) and not _has_diverged(self.tools.service(work.subject))
        stays = None if continues or last is None or last.kind is SnapshotKind.MANUAL else last
        return Next("replace", replace(work.state, continues=continues), changes=lambda tx: _keep(tx, stays))

    def replace(self, work: Work[ReplaceCopyState]) -> Outcome:
        backend, server, state = self.tools.backend, self.tools.server(work), work.state
        last = newest(self._snapshots(work))
        if last is not None and not state.continues and not _is_before(last, state):
            raise _still_behind(state, last)
        backend.servers.stop(server)
        dropped = [] if state.continues else self._outdated(work)
        # First what may fail: the source may be away, and is asked for a slot.
        backend.followers.replace(server, keeps_wal=state.continues)
        for snapshot_id in dropped:
            backend.restore.delete_snapshot(work.subject, snapshot_id)
        return Next("boot", changes=lambda tx: snapshots.delete_unheld(tx, work.subject, dropped, work.operation_id))

    def boot(self, work: Work[ReplaceCopyState]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work)) or Next("open" if work.state.is_based else "snapshot")

    def snapshot(self, work: Work[ReplaceCopyState]) -> Outcome:
        taken = self._take(work, work.state.snapshot_id, SnapshotKind.INITIAL)
        if taken is None:
            return boot(self.tools, work, self.tools.server(work)) or Wait(_PAUSE_SECONDS, "the server is not serving")
        state = replace(work.state, is_based=True)
        return Next("open", state, changes=lambda tx: snapshots.insert_snapshot(tx, taken))

    @repeats_from("boot")
    def open(self, work: Work[ReplaceCopyState]) -> Outcome:
        server = self.tools.server(work)
        if self.tools.backend.followers.observe(server) is None:  # it looks for superusers that only the copy has
            return boot(self.tools, work, server) or Wait(_PAUSE_SECONDS, "the server is not serving")
        self.tools.backend.servers.open(server)
        return Done(changes=lambda tx: _record(tx, work, self.tools.clock(), None, down_reason=None))

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        _record(tx, work, self.tools.clock(), error)

    def _take(self, work: Work[ReplaceCopyState], snapshot_id: str, kind: SnapshotKind) -> Snapshot | None:
        """Take a snapshot, or find the one that was taken; None when the standby does not serve."""
        service = self.tools.service(work.subject)
        facts = self.tools.backend.restore.take_snapshot(server_of(service), snapshot_id, paused=False)
        return None if facts is None else Snapshot(snapshot_id, service.id, kind, **asdict(facts))

    def _outdated(self, work: Work[ReplaceCopyState]) -> list[str]:
        """Return the snapshots that the new copy does not continue, except earlier ones that were made by hand."""
        known, state = self._snapshots(work), work.state
        return [one.id for one in known if one.kind is not SnapshotKind.MANUAL or not _is_before(one, state)]

    def _snapshots(self, work: Work[ReplaceCopyState]) -> list[Snapshot]:
        with self.tools.store.read() as tx:
            return snapshots.list_snapshots(tx, work.subject)


def _is_before(one: Snapshot, state: ReplaceCopyState) -> bool:
    """Tell whether a snapshot comes before the new copy in the order of the WAL."""
    return (one.timeline, lsn_number(one.end_lsn)) <= (state.timeline, lsn_number(state.redo_lsn))


def _keep(tx: sa.Connection, stays: Snapshot | None) -> None:
    if stays is not None:
        snapshots.keep_snapshot(tx, stays.id, _NAME_BEFORE)


def _hand_on(tx: sa.Connection, work: Work[NoState], state: ReplaceCopyState) -> None:
    """Let the copy replace the data. Raises Failed when something else has claimed the service: it is discarded."""
    current = services.get_service(tx, work.subject, lock=True)
    if current is None or current.activity is None or current.activity.operation_id != work.operation_id:
        raise Failed("COPY_INTERRUPTED", f"Service {work.subject} has just been paused, promoted or deleted")
    operation_id = submit(tx, ProcedureName.REPLACE_COPY, work.subject, state)
    services.update_service(tx, work.subject, operation_id=operation_id)


def _continues(state: ReplaceCopyState, last: Snapshot | None) -> bool:
    """Tell whether the new copy is a later state of what the service has."""
    if last is None or state.timeline != last.timeline:
        return False
    return lsn_number(state.redo_lsn) >= lsn_number(last.end_lsn)


def _has_diverged(service: Service) -> bool:
    return service.following is not None and service.following.has_diverged


def _still_behind(state: ReplaceCopyState, kept: Snapshot) -> Failed:
    """Return why a copy cannot be used: its WAL and that of the state to keep have the same names."""
    return Failed(
        "SOURCE_BEHIND",
        f"The copy of the source begins at {state.redo_lsn}, before {kept.end_lsn}, which this service had received",
        "It is copied again when the source has written more.",
    )


def _record(tx: sa.Connection, work: Work[Any], now: datetime, failure: str | None, **columns: Any) -> None:
    """End the claim, and remember how the attempt ended: the next one waits longer."""
    service = services.get_service(tx, work.subject)
    following = None if service is None else service.following
    if following is not None and following.copies is not None:
        copies = ended(following.copies, now, None if failure is None else failure[:_FAILURE_CHARACTERS])
        problem = None if failure is None else in_words(copies)
        ended_well = {} if failure is not None else {"needs_copy": False, "has_diverged": False}
        services.record_following(tx, work.subject, replace(following, copies=copies, problem=problem, **ended_well))
    finish(tx, work, **columns)
