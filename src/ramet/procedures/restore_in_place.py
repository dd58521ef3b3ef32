"""Restore a service in place: its data is replaced by a copy that was made and proven beside it.

step       leaves behind or does                                          undo
capture    a copy of the wanted state, independent of where it is from    destroy
recover    that state, cleanly stopped                                    (destroy)
depart     the same on a timeline that the service has never had          (destroy)
boot       a server of the copy, which no client can reach *              (destroy)
secure     roles as a fork has them, or as they were *                    (destroy)
close      it is stopped, and a snapshot of it taken                      (destroy)
claim      the service is UPGRADING; a row for the state before           -
settle     waits for forks that copy from it; a paused one is started        stop it again
stop       its server is down; clients of its pooler wait                 start it again
set_aside  the data belongs to the state before                           it returns
take_over  the service has the restored data, with its first snapshot     it is the copy's again
serve      a server at the endpoint, with the passwords of before         (take_over)
open       all WAL of before is archived; READY; the state before is a paused
           service, if it is kept                                         stop it
clear      nothing of the copy; no state before that is not kept          -

* Not for a rewind to data without subscriptions: `serve` secures it, at its only start.

Until `claim` the service serves, and may be changed; what speaks against the replacement then ends it. Its snapshots
and its archived WAL stay with it, so that its restore window goes on. Once clients may have been let in, nothing else
is undone than that a service which is closed to them is down, and it is recorded where the WAL of before ends. Read
replicas are made again.
"""

import logging
from dataclasses import asdict
from dataclasses import replace as with_values
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.values import Server
from ramet.errors import Exhausted, Failed, Unavailable
from ramet.model.archive import SETTING
from ramet.model.environment import Environment
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, is_down, status_of
from ramet.model.size import Size
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.status import READY_OR_PAUSED
from ramet.model.warm_forks import with_pool
from ramet.operations.procedure import Done, Next, NoState, Outcome, Wait, Work
from ramet.operations.words import in_words
from ramet.procedures.capturing import capture_parent, report_of
from ramet.procedures.replicas import stop_replicas, submit_restarts
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Steps,
    await_others,
    await_settled,
    boot,
    finish,
    is_claimed,
    recover,
    release_captured,
    release_holds,
    repeats_from,
    retry_if_server_killed,
    server_of,
    span_of_state_before,
    start_again,
    stop_unopened,
    submit_preparation,
)
from ramet.procedures.spec import submit
from ramet.procedures.state import RestoreState
from ramet.store import logins, services, snapshots

RESET, REWIND = "reset", "rewind"  # verbs
STATE_OF = "state_of"  # the setting with the id of the service whose state before a restore another one is
_PAUSE_SECONDS = 0.05
_MOST_ATTEMPTS = 36  # while the service is being deleted: with the pauses between them, about five minutes
_UNPROTECT = "Remove its protection with 'ramet service unprotect' or setProtection, then restore it again."
_NO_PORT = "Delete a service and try again, or do not keep the state before."
_SMALLEST = {"environment": Environment.DEV, "size": Size(), "port": 0, "pooler_port": None}
_log = logging.getLogger(__name__)


class RestoreInPlace(Steps):
    """The steps of `restore`."""

    name = ProcedureName.RESTORE

    def capture(self, work: Work[RestoreState]) -> Outcome:
        found = capture_parent(self.tools, work, self._copy(work))
        if isinstance(found, Wait):
            return found
        captured, base = found
        captured = self.tools.backend.replacements.reserve_timeline(self._copy(work), work.subject, captured)
        data_time = base.taken_at if base is not None and work.state.target is None else None
        state = replace(work.state, capture=captured, base_id=base.id if base else None, data_time=data_time)
        return Next("recover", state, changes=lambda tx: release_captured(tx, work, captured))

    def recover(self, work: Work[RestoreState]) -> Outcome:
        found = recover(self.tools, work, self._copy(work))
        if isinstance(found, Next) and found.step == "boot":
            return with_values(found, step="depart")
        return found

    @repeats_from()
    def depart(self, work: Work[RestoreState]) -> Outcome:
        leave = self.tools.backend.replacements.leave_timeline
        progress = leave(self._copy(work), work.subject, PATIENCE_SECONDS)
        if progress is not None:
            return Wait(0, progress)
        # This recovery has proven the copy: a rewind, which many wait for, starts it once, at the endpoint.
        if work.state.verb == REWIND and self.tools.backend.replacements.starts_quietly(self._copy(work)):
            return Next("close", replace(work.state, secures_late=True))
        return Next("boot")

    def boot(self, work: Work[RestoreState]) -> Outcome:
        return boot(self.tools, work, self._copy(work), first=True) or Next("secure")

    @repeats_from("boot")
    def secure(self, work: Work[RestoreState]) -> Outcome:
        return Next("close", replace(work.state, neutralised=self._secured(work, self._copy(work))))

    def _secured(self, work: Work[RestoreState], server: Server) -> dict[str, Any]:
        state, secure = work.state, self.tools.backend.replacements.secure
        return secure(server, rotate=not state.keeps_roles, neutralize=state.quiet)

    def close(self, work: Work[RestoreState]) -> Outcome:
        copy, snapshot_id = self._copy(work), work.state.snapshot_id
        self.tools.backend.replacements.close(copy)
        facts = self.tools.backend.restore.take_snapshot(copy, snapshot_id, paused=True)
        if facts is None:
            return Wait(_PAUSE_SECONDS, "a snapshot of the copy")
        taken = Snapshot(snapshot_id, work.subject, SnapshotKind.SCHEDULED, **asdict(facts))
        return Next("claim", replace(work.state, snapshot=taken))

    def claim(self, work: Work[RestoreState]) -> Outcome:
        """Claim the service, unless something has made that impossible since the restore was accepted."""
        service = self.tools.service(work.subject)
        if _check(service, work.state):
            busy = f"service {service.id} is {status_of(service)}"
            return Wait(_PAUSE_SECONDS, busy) if service.activity is None else await_others(self.tools, work, busy)

        def record(tx: sa.Connection) -> None:
            current = services.get_service(tx, work.subject, lock=True)
            if current is None or _check(current, work.state):
                raise Unavailable("SERVICE_BUSY", f"Service {work.subject} has just begun to change")
            if work.state.previous_name is not None:
                self._insert_previous(tx, work, current)
            services.update_service(tx, work.subject, operation_id=work.operation_id)

        return Next("settle", replace(work.state, was_down=is_down(service), was_paused=service.paused), changes=record)

    def settle(self, work: Work[RestoreState]) -> Outcome:
        waiting = await_settled(self.tools, work)
        if waiting is not None:
            return waiting
        server = self.tools.server(work)
        if work.state.was_paused:  # only a running server can say which passwords its roles have
            booting = boot(self.tools, work, server)
            if booting is not None:
                return booting
        elif not (work.state.was_down or work.state.secures_late):  # a rewind is to be over soon, more than short
            self.tools.backend.replacements.flush(server)
        stop_replicas(self.tools, work.subject)
        return Next("stop", replace(work.state, stopped_at=self.tools.clock()))

    def stop(self, work: Work[RestoreState]) -> Outcome:
        self.tools.backend.replacements.release(self.tools.server(work), self._copy(work))
        return Next("set_aside", durable=True)  # no earlier step finds the data afterwards

    def set_aside(self, work: Work[RestoreState]) -> Outcome:
        self.tools.backend.replacements.move_data(self.tools.server(work), self._previous(work))
        if work.state.previous_name is None:
            return Next("take_over")
        return Next("take_over", changes=lambda tx: logins.move_logins(tx, work.subject, work.state.previous_id))

    def take_over(self, work: Work[RestoreState]) -> Outcome:
        state, server = work.state, self.tools.server(work)
        if state.snapshot is None:
            raise AssertionError("BUG: the snapshot is taken before")
        self.tools.backend.replacements.move_data(self._copy(work), server, [state.snapshot_id])
        # Before this time the service had its earlier data: a fork as of such a time begins with an earlier snapshot.
        taken = with_values(state.snapshot, taken_at=self.tools.clock())
        return Next("serve", changes=lambda tx: snapshots.insert_snapshot(tx, taken))

    def serve(self, work: Work[RestoreState]) -> Outcome:
        server = self.tools.server(work)
        booting = boot(self.tools, work, server)
        if booting is not None:
            return booting
        killed = retry_if_server_killed(work, lambda: self._give_passwords(work, server))
        return killed or Next("open", replace(work.state, is_open=True), durable=True)

    def _give_passwords(self, work: Work[RestoreState], server: Server) -> None:
        if work.state.secures_late:
            self._secured(work, server)
        self.tools.backend.replacements.adopt(server, self._copy(work))

    def open(self, work: Work[RestoreState]) -> Outcome:
        server = self.tools.server(work)
        self._end_timeline(work)
        self.tools.backend.servers.start(server)
        if not self.tools.backend.servers.await_ready(server, PATIENCE_SECONDS).ready:
            return Wait(0, "starting")
        self.tools.backend.replacements.open(server)
        took = (self.tools.clock() - (work.state.stopped_at or self.tools.clock())).total_seconds()
        state = replace(work.state, stopped_seconds=round(max(0.0, took), 3))
        return Next("clear", state, changes=lambda tx: self._opened(tx, work))

    def _end_timeline(self, work: Work[RestoreState]) -> None:
        """Archive what is left of the WAL of before. A full disk is tried again, as all that the storage refuses."""
        try:
            self.tools.backend.replacements.end_timeline(self.tools.server(work), self._previous(work))
        except (Exhausted, OSError) as error:
            raise Unavailable(
                "WAL_NOT_ARCHIVED",
                f"The last WAL of service {work.subject} before its restore cannot be archived: {in_words(error)}",
                "Let the storage of its archive be writable and have free space, or delete the service.",
            ) from error

    def clear(self, work: Work[RestoreState]) -> Outcome:
        self._clear(work)
        return Done()

    def _opened(self, tx: sa.Connection, work: Work[RestoreState]) -> None:
        drilled = {"last_verified_at": None, "drilled_at": None, "drill_failure": None}
        finish(tx, work, paused=False, down_reason=None, **drilled, **_fork_columns(work.state))
        _move_logins(tx, work)
        previous_id, ready = work.state.previous_id, self._previous_columns(tx, work)
        services.finish_operation(tx, previous_id, work.operation_id, **ready)
        is_fork_anew = work.state.verb == RESET  # the report is about data of the parent
        submit(tx, ProcedureName.AFTERCARE, work.subject, NoState(), "examine" if is_fork_anew else "analyze")
        if work.state.verb == REWIND and work.state.base_id is not None:
            submit_preparation(tx, work.subject, work.state.base_id)  # it may be rewound to once more
        submit_restarts(tx, work.subject, ProcedureName.REBUILD_REPLICAS)

    def _insert_previous(self, tx: sa.Connection, work: Work[RestoreState], service: Service) -> None:
        """Add the row of the service that gets the state before; it shows the same status during the exchange."""
        state, used = work.state, services.used_ports(tx)
        port = next((port for port in state.free_ports if port not in used), None)
        if port is None:
            raise Failed("NO_FREE_PORT", "Every port that was free for the state before is in use", _NO_PORT)
        before = Service(
            id=state.previous_id,
            project_id=service.project_id,
            name=state.previous_name or service.name,
            region_code=service.region_code,
            service_type=service.service_type,
            environment=service.environment,
            size=service.size,
            volume_type=service.volume_type,
            host=service.host,
            port=port,
            pg_major=service.pg_major,
            created_at=self.tools.clock(),
            verifier=service.verifier,
            origin=service.origin,
            labels=service.labels,
            life_span=None if service.life_span is None else service.life_span.as_granted,
            settings=with_pool({**service.settings, SETTING: False, STATE_OF: service.id}, None),  # its archive has it
        )
        services.insert_service(tx, before)
        services.update_service(tx, before.id, operation_id=work.operation_id, report=service.report)

    def _previous_columns(self, tx: sa.Connection, work: Work[RestoreState]) -> dict[str, Any]:
        """Return the columns of the state before when the restore is over."""
        now = self.tools.clock()
        return {"paused": True, "ready_at": now, "life_span": span_of_state_before(tx, work.state.previous_id, now)}

    def undo_open(self, work: Work[RestoreState]) -> None:
        stop_unopened(self.tools, work, self.tools.server(work))

    def undo_set_aside(self, work: Work[RestoreState]) -> None:
        """Give the service its own data again."""
        if not work.state.is_open:
            self.tools.backend.replacements.move_data(self._previous(work), self.tools.server(work))

    def undo_take_over(self, work: Work[RestoreState]) -> None:
        """Give the copy what the service has got."""
        if not work.state.is_open:
            server, copy = self.tools.server(work), self._copy(work)
            self.tools.backend.replacements.close(server)
            self.tools.backend.replacements.withdraw_timeline(server, self._previous(work))
            self.tools.backend.replacements.move_data(server, copy, [work.state.snapshot_id])
            self.tools.backend.restore.delete_snapshot(work.subject, work.state.snapshot_id)  # of data that stayed

    def undo_stop(self, work: Work[RestoreState]) -> None:
        """Let the service serve as before, unless it was down or paused, or is being deleted."""
        state = work.state
        if state.is_open or state.was_down or state.was_paused or not is_claimed(self.tools, work):
            return
        server = self.tools.server(work)
        start_again(self.tools, server)
        self.tools.backend.replacements.open(server)

    def undo_settle(self, work: Work[RestoreState]) -> None:
        """Stop a service again that was paused, unless it is being deleted."""
        if work.state.was_paused and not work.state.is_open and is_claimed(self.tools, work):
            self.tools.backend.servers.stop(self.tools.server(work))

    def undo_capture(self, work: Work[RestoreState]) -> None:
        """Remove what is left, after it is recorded where the WAL of a state before ends that does not return."""
        if work.state.is_open:
            try:
                self._end_timeline(work)
            except (Failed, Unavailable) as error:
                is_given_up = work.attempt >= _MOST_ATTEMPTS and not is_claimed(self.tools, work)
                if isinstance(error, Unavailable) and not is_given_up:
                    raise  # without a record of the end, a fork would lack the last commits, and nothing would say so
                # The data that the service has now is damaged, or it is being deleted.
                cause = error.__cause__ or error
                _log.warning("the WAL of service %s before its restore is not archived: %s", work.subject, cause)
        self._clear(work)

    def _clear(self, work: Work[RestoreState]) -> None:
        """Remove what is left of the copy, and of the state before unless that is a service now."""
        self.tools.backend.servers.destroy(work.state.copy_id)
        if not work.state.is_open or work.state.previous_name is None:
            self.tools.backend.servers.destroy(work.state.previous_id)

    def on_undoing(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        release_holds(tx, work)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        release_holds(tx, work)
        reason = f"It could not be opened after its restore: {error}" if work.state.is_open else None
        was = services.get_service(tx, work.subject)
        resumed = {"paused": False} if work.state.is_open else {}
        finish(tx, work, down_reason=reason if reason or was is None else was.down_reason, **resumed)
        if work.state.is_open:
            _move_logins(tx, work)
            services.release_claims(tx, work.operation_id, **self._previous_columns(tx, work))
            submit_restarts(tx, work.subject, ProcedureName.REBUILD_REPLICAS)
        else:
            logins.move_logins(tx, work.state.previous_id, work.subject)
            snapshots.delete_unheld(tx, work.subject, [work.state.snapshot_id], work.operation_id)
            services.release_claims(tx, work.operation_id, deleted_at=self.tools.clock())

    def _copy(self, work: Work[RestoreState]) -> Server:
        """Return the throw-away server: of the smallest size, and without a port."""
        service = self.tools.service(work.subject)
        return server_of(replace(service, id=work.state.copy_id, pg_major=work.state.pg_major, **_SMALLEST))

    def _previous(self, work: Work[RestoreState]) -> Server:
        return with_values(self.tools.server(work), service_id=work.state.previous_id, port=0, pooler_port=None)


def _check(service: Service, state: RestoreState) -> bool:
    """Tell whether a service is busy. Raises Failed when it was changed so that it must not be replaced."""
    if service.deleted_at is not None or service.failed_at is not None:
        raise Failed("INVALID_STATE", f"Service {service.id} was deleted before it could be restored")
    if service.protected:
        raise Failed("PROTECTED", f"Service {service.id} was protected before its data was replaced", _UNPROTECT)
    if service.upstream is not None:
        raise Failed("FOLLOWS_SOURCE", f"Service {service.id} follows a database elsewhere by now")
    if service.pg_major != state.pg_major:
        raise Failed("UPGRADED", f"Service {service.id} runs PostgreSQL {service.pg_major} by now", "Restore again.")
    if service.activity is not None:
        return True
    return status_of(service) not in READY_OR_PAUSED and not is_down(service)


def _move_logins(tx: sa.Connection, work: Work[RestoreState]) -> None:
    """Let logins belong to the state before, in which their roles are; without that they end.

    They are not forgotten then: the role of one that was just being made may be in the data that the service has now.
    """
    if work.state.previous_name is not None:  # an earlier release may have set it aside without them
        logins.move_logins(tx, work.subject, work.state.previous_id)
        return
    for one in logins.list_logins(tx, work.subject):
        logins.end_login(tx, one.role, work.step_started_at)


def _fork_columns(state: RestoreState) -> dict[str, Any]:
    """Return what changes in the row of a fork that was reset: it is a fresh copy of its parent."""
    if state.verb != RESET:
        return {}
    return {
        "fork_strategy": state.strategy.value,
        "fork_target_time": state.target_text,
        "origin_snapshot_id": state.base_id,
        "data_time": state.data_time,
        "report": report_of(state),
    }
