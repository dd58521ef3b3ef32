"""Try the upgrade of a service to another major version, on a fork of it.

step       leaves behind                                         undo
capture    the fork's volume, independent of the service         destroy
recover    the data as of now, cleanly stopped                   (destroy)
boot       a server of the present version, closed to clients    (destroy)
survey     the rows of all tables, and the plans of statements   (destroy)
prepare    data without what belongs to the present version      (destroy)
stop       a stopped server                                      (destroy)
upgrade    data of the new version                               (destroy)
start      a server of the new version, closed to clients        (destroy)
complete   what each server has, and extensions that are new     (destroy)
analyze    statistics                                            (destroy)
compare    the differences, in the report                        (destroy)
secure     its own credentials; DEV: neutralized                 (destroy)
end        the report, and an open endpoint or nothing else      -

Only a fork that is kept is secured and opened; the data of any other is removed. The service itself serves all the
time; it is held as long as for a fork. If the service itself is to be upgraded, `end`
submits that.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.errors import Failed, Unavailable
from ramet.ids import new_id
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.snapshot import SnapshotKind
from ramet.model.status import Status
from ramet.model.upgrade import compared
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.capturing import report_of
from ramet.procedures.fork import Fork
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    boot,
    finish,
    publish,
    repeats_from,
    server_of,
    submit_snapshot,
)
from ramet.procedures.spec import submit
from ramet.procedures.state import TryUpgradeState, UpgradeState
from ramet.procedures.upgrade import check_obstacles
from ramet.store import services

_PAUSE_SECONDS = 0.1


class TryUpgrade(Fork):
    """The steps of `try_upgrade` that `fork` does not have."""

    name = ProcedureName.TRY_UPGRADE

    def neutralizes(self, work: Work[Any]) -> None:
        """Secure the copy after its upgrade, and not before."""

    def capture(self, work: Work[Any]) -> Outcome:
        found = super().capture(work)
        if isinstance(found, Next) and isinstance(found.state, TryUpgradeState):
            return Next(found.step, self._timed(work, found.state), found.changes)
        return found

    def boot(self, work: Work[Any]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work), first=True) or Next("survey", self._timed(work))

    @repeats_from("boot")
    def survey(self, work: Work[TryUpgradeState]) -> Outcome:
        server, statements = self.tools.server(work), work.state.facts.statements
        made = self.tools.backend.upgrades.survey(server, statements, PATIENCE_SECONDS)
        if made is None:
            return Wait(_PAUSE_SECONDS, "counting rows")
        return Next("prepare", replace(self._timed(work), before=made))

    @repeats_from("boot")
    def prepare(self, work: Work[TryUpgradeState]) -> Outcome:
        self.tools.backend.upgrades.prepare(self.tools.server(work))
        return Next("stop", self._timed(work))

    def stop(self, work: Work[TryUpgradeState]) -> Outcome:
        self.tools.backend.servers.stop(self.tools.server(work))
        return Next("upgrade", self._timed(work))

    def upgrade(self, work: Work[TryUpgradeState]) -> Outcome:
        state = work.state
        server = server_of(replace(self.tools.service(work.subject), pg_major=state.to_major))
        upgrading = self.tools.backend.upgrades.upgrade(server, state.from_major, PATIENCE_SECONDS)
        if upgrading.facts is None:
            return Wait(_PAUSE_SECONDS, upgrading.progress)
        report = {**state.report, **upgrading.facts}
        return Next(
            "start",
            replace(self._timed(work), report=report),
            changes=lambda tx: services.update_service(tx, work.subject, pg_major=state.to_major),
        )

    def start(self, work: Work[TryUpgradeState]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work), first=True) or Next("complete", self._timed(work))

    @repeats_from("start")
    def complete(self, work: Work[TryUpgradeState]) -> Outcome:
        problems = self.tools.backend.upgrades.complete(self.tools.server(work), work.state.from_major)
        report = {**work.state.report, "problems": list(problems)}
        return Next("analyze", replace(self._timed(work), report=report))

    @repeats_from("start")
    def analyze(self, work: Work[TryUpgradeState]) -> Outcome:
        ended = self.tools.backend.restore.analyze(self.tools.server(work), PATIENCE_SECONDS)
        if ended is None:
            return Wait(_PAUSE_SECONDS, "ANALYZE")
        return Next("compare", replace(self._timed(work), report={**work.state.report, "statistics": ended}))

    @repeats_from("start")
    def compare(self, work: Work[TryUpgradeState]) -> Outcome:
        server, state = self.tools.server(work), work.state
        if state.before is None:  # this was done when the server was killed in a later step
            return Next("secure")
        after = self.tools.backend.upgrades.survey(server, state.facts.statements, PATIENCE_SECONDS)
        if after is None:
            return Wait(_PAUSE_SECONDS, "counting rows")
        changed = replace(self._timed(work), report={**state.report, **compared(state.before, after)}, before=None)
        return Next("secure", changed) if state.keeps else Next("end", changed, durable=True)  # which removes the data

    @repeats_from("start")
    def secure(self, work: Work[Any]) -> Outcome:
        return self.secured(work, "end")

    def end(self, work: Work[TryUpgradeState]) -> Outcome:
        if work.state.switches:
            return self._switch(work)
        if not work.state.keeps:
            self.destroy(work)
            report = _stored(work.state)
            return Done(changes=lambda tx: finish(tx, work, deleted_at=self.tools.clock(), report=report))

        def record(tx: sa.Connection) -> None:
            finish(tx, work, ready_at=self.tools.clock(), report=_stored(work.state, is_kept=True))
            submit_snapshot(tx, work.subject, SnapshotKind.INITIAL)

        return publish(self.tools, work, record, again="start")

    def _switch(self, work: Work[TryUpgradeState]) -> Outcome:
        """Remove the fork's data, and go on with the service; the fork's row becomes the service before."""
        state, report = work.state, _stored(work.state, is_kept=True)
        differing = state.report["row_differences"]
        if differing:
            tables = ", ".join(str(one["table"]) for one in differing)
            raise Failed("ROWS_DIFFER", f"The rows of {tables} are not the same after the upgrade of the fork")
        service = self.tools.service(state.parent_id)
        _check_version(service, state)
        if status_of(service) is not Status.READY:
            if service.activity is None or service.deleted_at is not None:
                raise Failed("INVALID_STATE", f"Service {service.id} is {status_of(service)}, and was not upgraded")
            return Wait(_PAUSE_SECONDS, f"service {service.id} is {status_of(service)}")
        check_obstacles(self.tools, service)
        self.destroy(work)
        following = UpgradeState(
            from_major=state.from_major, to_major=state.to_major, copy_id=new_id(), previous_id=work.subject
        )

        def record(tx: sa.Connection) -> None:
            current = services.get_service(tx, service.id, lock=True)
            if current is None or current.activity is not None or status_of(current) is not Status.READY:
                raise Unavailable("SERVICE_BUSY", f"Service {service.id} has just begun to change")
            _check_version(current, state)
            fork = services.get_service(tx, work.subject, lock=True)
            if fork is None or fork.activity is None or fork.activity.operation_id != work.operation_id:
                raise Failed("TRIAL_DELETED", "The fork that the upgrade was tried on is being deleted")
            operation_id = submit(tx, ProcedureName.UPGRADE, service.id, following)
            services.update_service(tx, service.id, operation_id=operation_id)
            services.update_service(tx, work.subject, operation_id=operation_id, report=report)

        return Done(changes=record)

    def on_failed(self, tx: sa.Connection, work: Work[TryUpgradeState], error: str) -> None:
        super().on_failed(tx, work, error)
        services.update_service(tx, work.subject, report=_stored(work.state))

    def _timed(self, work: Work[TryUpgradeState], state: TryUpgradeState | None = None) -> TryUpgradeState:
        """Return the state with the seconds of the step that ends now."""
        took = max(0.0, (self.tools.clock() - work.step_started_at).total_seconds())
        return replace(state or work.state, seconds={**work.state.seconds, work.step: round(took, 2)})


def _check_version(service: Service, state: TryUpgradeState) -> None:
    """Raise Failed when the service was upgraded during the trial: its data is not what was tried."""
    if service.pg_major != state.from_major:
        raise Failed("UPGRADED", f"Service {service.id} runs PostgreSQL {service.pg_major} by now")


def _stored(state: TryUpgradeState, *, is_kept: bool = False) -> dict[str, Any]:
    """Return what is stored with the fork."""
    found = {"upgrade": {**state.report, "seconds": state.seconds}}
    return {**report_of(state), **found} if is_kept else found
