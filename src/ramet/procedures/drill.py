"""Prove that a service can be restored: recover its newest moment in a throw-away fork that nobody can reach.

step       leaves behind                                     undo
choose     a hold on the service, and the moment             -
capture    the throw-away volume; the hold is gone           destroy
recover    the data of that moment, cleanly stopped          (destroy)
boot       a server, closed, without a port                  (destroy)
check      nothing: amcheck has read every table             (destroy)
drop       no volume                                         -
walk       the time of the proof: every archived segment read -

Drills yield: none begins while other work is under way.
"""

import logging
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from ramet.backends.interface.values import Server, Source
from ramet.errors import Failed
from ramet.model.resources import Size
from ramet.model.service import Environment, status_of
from ramet.model.snapshot import base_for, rollable
from ramet.model.status import Status
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Tools, boot_server, let_go, recover, server_of, stored
from ramet.store import operations, services, snapshots

NAME = "drill"
_YIELD_SECONDS = 2.0
_YIELDS_TO = ("drill", "aftercare", "prepare")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Drill:
    """The steps of `drill`."""

    tools: Tools

    def choose(self, work: Work) -> Outcome:
        with self.tools.store.read() as tx:
            if operations.is_busy(tx, besides=_YIELDS_TO):
                return Wait(_YIELD_SECONDS, "other work")
            known = snapshots.list_snapshots(tx, work.subject)
        service = self.tools.service(work.subject)
        if status_of(service) not in (Status.READY, Status.PAUSED):
            return Done()
        target = self.tools.clock()
        base = base_for(known, target)
        if base is None:
            raise Failed("NO_SNAPSHOT", f"Service {service.id} has no snapshot, so no moment of it can be had")
        return Next(
            "capture",
            {"base_id": base.id, "target": target.isoformat()},
            changes=lambda tx: services.add_hold(tx, work.subject, work.operation_id),
        )

    def capture(self, work: Work) -> Outcome:
        parent = self.tools.service(work.subject)
        target = datetime.fromisoformat(work.state["target"])
        source = Source(server_of(parent), parent.paused, work.state["base_id"], target)
        captured = self.tools.backend.restore.capture(self._server(work), source)
        if captured is None:
            return Wait(0.2, "the service's server is not serving")
        return Next("recover", {"capture": stored(captured)}, changes=lambda tx: let_go(tx, work))

    def recover(self, work: Work) -> Outcome:
        recovered = recover(self.tools, work, self._server(work))
        return Next("boot", {"recovery": recovered}) if isinstance(recovered, dict) else recovered

    def boot(self, work: Work) -> Outcome:
        return boot_server(self.tools, work, self._server(work), first=True) or Next("check")

    def check(self, work: Work) -> Outcome:
        complaints = self.tools.backend.restore.verify_data(self._server(work), PATIENCE_SECONDS)
        if complaints is None:
            return Wait(_YIELD_SECONDS, "amcheck")
        if complaints:
            raise Failed("DATA_DAMAGED", "amcheck found damage in what was restored", complaints)
        return Next("drop")

    def drop(self, work: Work) -> Outcome:
        self.destroy(work)
        return Next("walk", {"at": ""})

    def walk(self, work: Work) -> Outcome:
        if self.tools.service(work.subject).deleted_at is not None:
            return Done()
        at = self.tools.backend.restore.verify_archive(work.subject, work.state["at"])
        if at is not None:
            return Next("walk", {"at": at})
        with self.tools.store.read() as tx:
            known = rollable(snapshots.list_snapshots(tx, work.subject))
        gaps = self.tools.backend.restore.gaps(work.subject, known)
        if gaps:
            raise Failed("ARCHIVE_BROKEN", "The restore window has a gap", gaps[0].reason)
        return Done(changes=lambda tx: self._proven(tx, work))

    def destroy(self, work: Work) -> None:
        self.tools.backend.servers.destroy(work.state["drill_id"])

    def failed(self, tx: sa.Connection, work: Work, error: str) -> None:
        let_go(tx, work)
        _log.error("the restore drill of service %s failed: %s", work.subject, error)
        services.update_service(tx, work.subject, drilled_at=self.tools.clock(), drill_failure=error)

    def _proven(self, tx: sa.Connection, work: Work) -> None:
        last_verified_at = datetime.fromisoformat(work.state["target"])
        services.update_service(
            tx, work.subject, last_verified_at=last_verified_at, drilled_at=self.tools.clock(), drill_failure=None
        )

    def _server(self, work: Work) -> Server:
        """Return the throw-away server: of the smallest size, and without a port."""
        server = server_of(self.tools.service(work.subject))
        return replace(
            server,
            service_id=work.state["drill_id"],
            environment=Environment.DEV,
            size=Size(),
            port=0,
            pooler_port=None,
        )


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `drill`."""
    steps = Drill(tools)
    return Procedure(
        name=NAME,
        first="choose",
        steps={
            "choose": steps.choose,
            "capture": steps.capture,
            "recover": steps.recover,
            "boot": steps.boot,
            "check": steps.check,
            "drop": steps.drop,
            "walk": steps.walk,
        },
        undo={"capture": steps.destroy},
        on_undoing=let_go,
        on_failed=steps.failed,
        deadline_seconds=86_400.0,
        background=True,
    )
