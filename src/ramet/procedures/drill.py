"""Verify that a service can be restored: recover its newest state in a throw-away server that no client can reach.

step       leaves behind                                          undo
choose     a hold on the service, and the recovery target         -
capture    the throw-away volume; the hold is released *          destroy
recover    the data as of the target, cleanly stopped             (destroy)
boot       a server, closed, without a port                       (destroy)
check      nothing: amcheck has read every table                  (destroy)
drop       no volume                                              -
walk       `last_verified_at`: every archived segment is read     -

* Where the recovery needs the service, it is released by `recover`. Where that, or a `capture` that waits for storage
or for the service's server, gives way to another operation, `drop` releases it and ends the drill.

A drill does not begin while other work is under way, or while the host has no room for one more server. Every other
drill of a service in the off-host archive takes its data from there: `capture` downloads it, no file of the service is
used, and there is no `walk`.
"""

import logging
from dataclasses import replace as with_values
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.backends.interface.restore import SNAPSHOT_UNDER_WAY
from ramet.backends.interface.values import Server
from ramet.errors import Failed, Unavailable
from ramet.model.environment import Environment
from ramet.model.high_availability import NO_STANDBYS, with_standbys
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, is_standby, status_of
from ramet.model.size import Size
from ramet.model.snapshot import base_for, rollable
from ramet.model.status import READY_OR_PAUSED
from ramet.model.timestamps import rfc3339
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.capturing import capture_archived
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    STORED_SECONDS,
    Steps,
    boot,
    recover,
    release_captured,
    release_holds,
    repeats_from,
    server_of,
    source_of,
    unless_rebooted,
)
from ramet.procedures.state import DrillState
from ramet.store import operations, services, snapshots

_YIELD_SECONDS = 2.0
_ROOM_SECONDS = 30.0
_log = logging.getLogger(__name__)


class Drill(Steps):
    """The steps of `drill`."""

    name = ProcedureName.DRILL

    def choose(self, work: Work[DrillState]) -> Outcome:
        with self.tools.store.read() as tx:
            if operations.is_busy(tx, SPECS[ProcedureName.DRILL].yields_to):
                return Wait(_YIELD_SECONDS, "other work")
            known = snapshots.list_snapshots(tx, work.subject)
        service, bound = self.tools.service(work.subject), self.tools.backend.admission.capacity().tightest
        if status_of(service) not in READY_OR_PAUSED:
            return Done()
        if bound is not None and not bound.room:
            return Wait(_ROOM_SECONDS, f"room on the host: {bound.used} of {bound.most} {bound.unit} are in use")
        work = with_values(work, state=replace(work.state, pg_major=service.pg_major))
        if work.state.is_off_host:
            return self._choose_archived(work, service)
        target = _received_until(service, self.tools.clock())
        base = base_for(known, target)
        if base is None:
            raise Failed("NO_SNAPSHOT", f"Service {service.id} has no snapshot, so it cannot be restored")
        return Next(
            "capture",
            replace(work.state, base_id=base.id, target=target),
            changes=lambda tx: services.add_hold(tx, work.subject, work.operation_id),
        )

    def _choose_archived(self, work: Work[DrillState], service: Service) -> Outcome:
        """Choose the newest time that the archive has. A drill of the local copy takes the turn of one that is away."""
        target = service.archived_until
        try:
            base = None if target is None else self.tools.backend.archive.holdings(server_of(service)).base_for(target)
        except Unavailable as error:
            _log.info("service %s is not restored from the off-host archive today: %s", service.id, error)
            return Next("choose", replace(work.state, is_off_host=False))
        if target is None:
            return Done()
        if base is None:
            raise Failed(
                ARCHIVE_INCOMPLETE,
                f"The off-host archive has no base backup of service {service.id} from before {rfc3339(target)}",
            )
        name = server_of(service).archive_name
        return Next("capture", replace(work.state, base_backup_id=base.id, archive_name=name, target=target))

    def capture(self, work: Work[DrillState]) -> Outcome:
        if work.state.is_off_host:
            archived = capture_archived(self.tools, work.state, work.subject, self._server(work))
            return archived if isinstance(archived, Wait) else Next("recover", replace(work.state, capture=archived))
        source = source_of(self.tools.service(work.subject), work.state.base_id, work.state.target)
        try:
            captured = self.tools.backend.restore.capture(self._server(work), source)
        except Unavailable as error:
            if error.code != SNAPSHOT_UNDER_WAY:
                raise
            return self._given_way(work) or Wait(STORED_SECONDS, str(error))
        if captured is None:
            return self._given_way(work) or Wait(0.2, "the service's server is not serving")
        return Next(
            "recover", replace(work.state, capture=captured), changes=lambda tx: release_captured(tx, work, captured)
        )

    def recover(self, work: Work[DrillState]) -> Outcome:
        """Continue the recovery, or give it up for what wants to begin with the service that it holds."""
        given_way = self._given_way(work) if work.state.captured().needs_parent else None
        if given_way is not None:
            return given_way
        server = self._server(work)
        return unless_rebooted(lambda: recover(self.tools, work, server), lambda: self._begin_again(work))

    def _begin_again(self, work: Work[DrillState]) -> Next:
        self.destroy(work)  # a drill may end where it begins
        state = replace(work.state, capture=None, recovery=None)
        return Next("choose", state, changes=lambda tx: release_holds(tx, work))

    def _given_way(self, work: Work[DrillState]) -> Next | None:
        if self.tools.service(work.subject).activity is None:
            return None
        _log.info("the restore drill of service %s gives way to another operation", work.subject)
        return Next("drop", replace(work.state, gives_way=True), durable=True)

    def boot(self, work: Work[DrillState]) -> Outcome:
        server = self._server(work)
        booting = unless_rebooted(lambda: boot(self.tools, work, server, first=True), lambda: self._begin_again(work))
        return booting or Next("check")

    @repeats_from("boot")
    def check(self, work: Work[DrillState]) -> Outcome:
        complaints = self.tools.backend.restore.verify_data(self._server(work), PATIENCE_SECONDS)
        if complaints is None:
            return Wait(_YIELD_SECONDS, "amcheck")
        if complaints:
            raise Failed("DATA_DAMAGED", "amcheck found damage in what was restored", complaints)
        return Next("drop", durable=True)  # no earlier step finds the volume

    def drop(self, work: Work[DrillState]) -> Outcome:
        self.destroy(work)
        if work.state.gives_way:
            return Done(changes=lambda tx: release_holds(tx, work))
        if self._is_outdated(work):
            return Done()
        if not work.state.is_off_host:
            return Next("walk")
        now = self.tools.clock()
        verified = {"archive_verified_at": work.state.target, "archive_drill_failure": None}
        drilled = {"drilled_at": now, "archive_drilled_at": now}
        return Done(changes=lambda tx: services.update_service(tx, work.subject, **verified, **drilled))

    def walk(self, work: Work[DrillState]) -> Outcome:
        if self.tools.service(work.subject).deleted_at is not None or self._is_outdated(work):
            return Done()
        at = self.tools.backend.restore.verify_archive(work.subject, work.state.at)
        if at is not None:
            return Next("walk", replace(work.state, at=at))
        with self.tools.store.read() as tx:
            known = rollable(snapshots.list_snapshots(tx, work.subject))
        gaps = self.tools.backend.restore.gaps(work.subject, known)
        if gaps:
            raise Failed("ARCHIVE_BROKEN", "The restore window has a gap", gaps[0].reason)
        verified = {"last_verified_at": work.state.target, "drilled_at": self.tools.clock(), "drill_failure": None}
        return Done(changes=lambda tx: services.update_service(tx, work.subject, **verified))

    def destroy(self, work: Work[DrillState]) -> None:
        self.tools.backend.servers.destroy(work.state.drill_id)

    undo_capture = destroy

    def on_undoing(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        release_holds(tx, work)

    def on_failed(self, tx: sa.Connection, work: Work[DrillState], error: str) -> None:
        release_holds(tx, work)
        if self._is_outdated(work):
            return
        _log.error("the restore drill of service %s failed: %s", work.subject, error)
        now = self.tools.clock()
        if work.state.is_off_host:
            found = {"archive_drilled_at": now, "archive_drill_failure": error}
        else:
            found = {"drill_failure": error}
        services.update_service(tx, work.subject, drilled_at=now, **found)

    def _server(self, work: Work[DrillState]) -> Server:
        """Return the throw-away server: of the smallest size, without a port, and without standbys."""
        service = self.tools.service(work.subject)
        smallest = {
            "environment": Environment.DEV,
            "size": Size(),
            "port": 0,
            "pooler_port": None,
            "upstream": None,
            "settings": with_standbys(service.settings, NO_STANDBYS),
        }
        major = work.state.pg_major or service.pg_major
        return server_of(replace(service, id=work.state.drill_id, pg_major=major, archived_as=None, **smallest))

    def _is_outdated(self, work: Work[DrillState]) -> bool:
        """Tell whether the service was upgraded during it: nothing that a drill found is about it any more."""
        return work.state.pg_major not in (None, self.tools.service(work.subject).pg_major)


def _received_until(service: Service, now: datetime) -> datetime:
    """Return the newest time that a service can be restored to: of a standby without its source, what it received."""
    seen = service.following
    if not is_standby(service) or seen is None or not seen.receives_nothing or seen.complete_until is None:
        return now
    return min(now, seen.complete_until)
