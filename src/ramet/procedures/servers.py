"""What the procedures share: their tools, and steps that several of them take."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.restore import INTERRUPTED_BY_REBOOT, SNAPSHOT_UNDER_WAY
from ramet.backends.interface.servers import (
    RESIZE_UNDER_WAY,
    SERVER_ENDING,
    SERVER_KILLED,
    SERVER_STARTING,
    SERVER_STOPPING,
)
from ramet.backends.interface.values import Capture, Server, Source
from ramet.errors import Failed, Unavailable, Unseen
from ramet.ids import new_id
from ramet.model.address import earlier_hosts_of
from ramet.model.high_availability import standbys_of
from ramet.model.parameters import parameters_of
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, is_dev_fork, is_standby
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.timestamps import time_left
from ramet.model.wal_level import wal_level_of
from ramet.operations.procedure import Changes, Done, Next, Outcome, Procedure, Step, Wait, Work
from ramet.procedures.spec import submit
from ramet.procedures.state import (
    SECRETS,
    STATES,
    CreateState,
    Interrupting,
    OneSnapshotState,
    RecoveryState,
    Restartable,
    RestoreState,
    SnapshotState,
)
from ramet.store import operations, services
from ramet.store.database import Store

PATIENCE_SECONDS = 0.4
FORKED_WITHIN = timedelta(days=7)  # a service that was forked since then is likely to be forked again
STORED_SECONDS = 2.0  # how often storage is asked whether it has done what it works on
MOST_KILLS = 5
# What a backend says while what it has begun takes longer, and after how many seconds it is asked again.
_TAKES_LONGER = {
    RESIZE_UNDER_WAY: 0.1,
    SERVER_ENDING: 0.1,
    SERVER_STARTING: 0.1,
    SERVER_STOPPING: 0.1,
    SNAPSHOT_UNDER_WAY: STORED_SECONDS,
}
_LONGEST_PAUSE_SECONDS = 0.25
_LEFT = "left_in_source"
_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_Step = Callable[[Any, Work[Any]], Outcome]


@dataclass(frozen=True)
class Tools:
    """What a procedure works with. `rest` is how long work that can wait leaves a new fork alone.

    `preparation_rest` is how long the preparation of a snapshot waits: the first client of a new service needs the CPU
    more. `retention_clock` says by which time snapshots are old enough to be removed; None: by `clock`. `stopwatch`
    returns seconds since some moment, and no clock that steps changes them. `window` is how far back a service without
    restore settings can be restored.
    """

    store: Store
    backend: Backend
    clock: Callable[[], datetime]
    rest: timedelta = timedelta(seconds=10)
    retention_clock: Callable[[], datetime] | None = None
    preparation_rest: timedelta = timedelta(seconds=0.3)
    stopwatch: Callable[[], float] = time.monotonic
    window: timedelta = timedelta(days=7)

    def service(self, service_id: str) -> Service:
        """Return a service's row; it exists as long as an operation names it."""
        with self.store.read() as tx:
            found = services.get_service(tx, service_id)
        if found is None:
            raise AssertionError(f"BUG: service {service_id} has an operation but no row")
        return found

    def server(self, work: Work[Any]) -> Server:
        """Return the server that an operation is about."""
        return server_of(self.service(work.subject))


@dataclass(frozen=True)
class Steps:
    """A procedure: a method for each step, of its name, and `undo_<step>` for one that leaves something behind."""

    tools: Tools
    name: ClassVar[ProcedureName]

    def procedure(self) -> Procedure:
        """Return the procedure with what the tables say of it."""
        spec = SPECS[self.name]
        return Procedure(
            name=self.name.value,
            steps={step: _waiting(getattr(self, step)) for step in spec.steps},
            undo={step: undo for step in spec.steps if (undo := getattr(self, f"undo_{step}", None))},
            state=STATES[self.name],
            secrets=SECRETS.get(self.name, ()),
            on_undoing=self.on_undoing,
            on_failed=self.on_failed,
            deadline_seconds=spec.deadline_seconds,
            background=spec.background,
            is_low_priority=spec.is_low_priority,
        )

    def on_undoing(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        """Change rows when the operation begins to be undone."""

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        """Change rows when the operation has failed, after the last undo: it claims and holds no service any more."""
        finish(tx, work)


class Creation(Steps):
    """What a procedure that makes a service leaves when it fails: nothing on the host, and the reason in its row."""

    def destroy(self, work: Work[Any]) -> None:
        self.tools.backend.servers.destroy(work.subject)

    def record_left(self, work: Work[Any], left: str | None) -> None:
        """Record what stays in a source. It is found only once: afterwards nothing here knows of it."""
        if left is not None:
            report = {**(self.tools.service(work.subject).report or {}), _LEFT: left}
            with self.tools.store.write() as tx:
                services.update_service(tx, work.subject, report=report)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        left = left_in_source(services.get_service(tx, work.subject))
        finish(tx, work, failed_at=self.tools.clock(), failure=error if left is None else f"{error} {left}")


def left_in_source(service: Service | None) -> str | None:
    """Return what the undo of a service's creation has left in the database that it was to follow."""
    return None if service is None or service.report is None else service.report.get(_LEFT)


def server_of(service: Service) -> Server:
    """Return what a backend must know of a service."""
    return Server(
        service_id=service.id,
        service_type=service.service_type,
        environment=service.environment,
        size=service.size,
        host=service.host,
        port=service.port,
        pg_major=service.pg_major,
        verifier=service.verifier,
        pooler_port=service.pooler_port,
        wal_level=wal_level_of(service.settings),
        upstream=service.upstream if is_standby(service) else None,
        archived_as=service.archived_as,
        server_port=service.server_port,
        project_id=service.project_id,
        standbys=standbys_of(service.settings),
        parameters=tuple(sorted(parameters_of(service.settings).items())),
        earlier_hosts=earlier_hosts_of(service.settings),
        is_dev_fork=is_dev_fork(service),
    )


def source_of(
    parent: Service,
    snapshot_id: str | None = None,
    target: datetime | None = None,
    base_backup_id: str | None = None,
    *,
    neutralize: bool | None = None,
) -> Source:
    """Return where a backend finds the data of a parent: as it is now, of a snapshot, or rolled forward from one.

    With `base_backup_id` that is in the off-host archive. `neutralize` is explained there.
    """
    return Source(server_of(parent), parent.paused, snapshot_id, target, base_backup_id, neutralize)


def await_settled(tools: Tools, work: Work[Interrupting] | Work[RestoreState]) -> Wait | None:
    """Return a Wait while the operation that this one interrupts is under way, or others copy from the service."""
    interrupted = work.state.interrupted
    with tools.store.read() as tx:
        if interrupted is not None and operations.is_under_way(tx, interrupted):
            return await_others(tools, work, f"operation {interrupted}")
        holders = [h for h in services.holders(tx, work.subject) if h != work.operation_id]
    return await_others(tools, work, f"held by {', '.join(holders)}") if holders else None


def await_others(tools: Tools, work: Work[Any], what: str, seconds: float = 0.05) -> Wait:
    """Return a Wait for other operations: `seconds` at first, and less often the longer it lasts.

    It lasts as long as they take, which have deadlines of their own: each minute of it is progress.
    """
    waited = (tools.clock() - work.step_started_at).total_seconds()
    minutes = f" for {int(waited) // 60} min" if waited >= 60 else ""
    return Wait(min(_LONGEST_PAUSE_SECONDS, max(seconds, waited / 20)), what + minutes)


def recover(tools: Tools, work: Work[RecoveryState], server: Server) -> Wait | Next:
    """Continue the recovery of what was captured, for a short time; when it is complete, boot comes next."""
    captured = work.state.captured()
    recovery = retry_if_server_killed(work, lambda: tools.backend.restore.recover(server, captured, PATIENCE_SECONDS))
    if isinstance(recovery, Next):
        return recovery
    if recovery.facts is None:
        return Wait(0, recovery.progress)
    release = (lambda tx: release_holds(tx, work)) if captured.needs_parent else None
    return Next("boot", replace(work.state, recovery=recovery.facts), changes=release)


def boot(
    tools: Tools, work: Work[Restartable], server: Server, *, first: bool = False, clients: bool = False
) -> Wait | Next | None:
    """Start a server unless it runs, and watch it for a short time; None when it is ready.

    `first` and `clients` are those of a backend's `start`.
    """
    tools.backend.servers.start(server, first=first, clients=clients)
    readiness = retry_if_server_killed(work, lambda: tools.backend.servers.await_ready(server, PATIENCE_SECONDS))
    if isinstance(readiness, Next):
        return readiness
    return None if readiness.ready else Wait(0, readiness.progress)


def is_claimed(tools: Tools, work: Work[Any]) -> bool:
    """Tell whether the service is the operation's still: it is not once it was opened, or is being deleted."""
    activity = tools.service(work.subject).activity
    return activity is not None and activity.operation_id == work.operation_id


def start_again(tools: Tools, server: Server) -> None:
    """Start a server that was stopped for what is undone now; raise Unavailable while it starts."""
    servers = tools.backend.servers
    servers.start(server)
    if not servers.await_ready(server, 10 * PATIENCE_SECONDS).ready:
        raise Unavailable("SERVER_STARTING", f"The server of service {server.service_id} is still starting")


@contextmanager
def ends_though_failed(work: Work[Any]) -> Iterator[None]:
    """Let an undo end where a backend refuses for good what was so before: to try again would not end."""
    try:
        yield
    except Failed as error:
        if error.code != "VOLUME_LOST":  # the status of the service says that
            _log.warning("service %s does not get back what it had before: %s", work.subject, error)


def stop_unopened(tools: Tools, work: Work[Any], server: Server) -> None:
    """Stop a server that could not be opened. The observer starts it again, open to its clients."""
    if is_claimed(tools, work):
        try:
            tools.backend.servers.stop(server)
        except (Failed, Unavailable) as error:  # one that crashed is started to be stopped cleanly
            if isinstance(error, Unavailable) and error.code != SERVER_KILLED:
                raise


def retry_if_server_killed(
    work: Work[Restartable], act: Callable[[], _Result], again: str | None = None
) -> _Result | Next:
    """Work on a server. If it is killed during that, repeat from the step `again` (None: this one), a few times.

    If the server exited with an error, the operation fails at once. What could not be asked says nothing about it, and
    one that takes longer was not killed.
    """
    try:
        return act()
    except Unseen:
        raise
    except Unavailable as killed:
        if killed.code in _TAKES_LONGER:
            raise
        kills = work.state.kills + 1
        if kills > MOST_KILLS:
            raise Failed(killed.code, f"{killed.message}; that happened {kills} times", killed.details) from killed
        return Next(again or work.step, replace(work.state, kills=kills))


def unless_rebooted(act: Callable[[], _Result], again: Callable[[], Next]) -> _Result | Next:
    """Work on what was captured; return what `again` does where a reboot of the host may have lost it."""
    try:
        return act()
    except Failed as error:
        if error.code != INTERRUPTED_BY_REBOOT:
            raise
        return again()


def repeats_from(again: str | None = None) -> Callable[[_Step], _Step]:
    """Let a step be repeated from `again` (None: itself) when the server that it works on is killed, a few times."""
    return lambda step: wraps(step)(lambda steps, work: retry_if_server_killed(work, lambda: step(steps, work), again))


def _waiting(step: Step) -> Step:
    """Let a step wait while a backend says that what it has begun takes longer: a changed text is progress."""

    @wraps(step)
    def run(work: Work[Any]) -> Outcome:
        try:
            return step(work)
        except Unavailable as error:
            if error.code not in _TAKES_LONGER:
                raise
            return Wait(_TAKES_LONGER[error.code], str(error))

    return run


def publish(tools: Tools, work: Work[Restartable], record: Changes, again: str = "boot") -> Next | Done:
    """Let clients in, and record that the service is READY. If the server is killed before, repeat from `again`."""
    server = tools.server(work)
    return retry_if_server_killed(work, lambda: tools.backend.servers.open(server), again) or Done(changes=record)


def take_snapshot(
    tools: Tools, work: Work[CreateState] | Work[SnapshotState], kind: SnapshotKind, name: str | None = None
) -> Snapshot | Wait:
    """Make the snapshot whose id the operation carries; a Wait while its server is not serving."""
    service = tools.service(work.subject)
    facts = tools.backend.restore.take_snapshot(server_of(service), work.state.snapshot_id, service.paused)
    if facts is None:
        return Wait(0.1, "the server is not serving")
    return Snapshot(work.state.snapshot_id, service.id, kind, name=name, **asdict(facts))


def seconds_to_rest(tools: Tools, service: Service) -> float:
    """Return how long a fork is still left alone: many exist for seconds only, while others are made beside them."""
    if service.origin is None or service.ready_at is None:
        return 0.0
    return time_left(service.ready_at, tools.rest, tools.clock()).total_seconds()


def submit_snapshot(tx: sa.Connection, service_id: str, kind: SnapshotKind, name: str | None = None) -> str:
    """Submit a snapshot, which holds its service until it is taken; return its id, which is the operation's, too."""
    snapshot_id = new_id()
    state = SnapshotState(snapshot_id=snapshot_id, kind=kind, name=name)
    submit(tx, ProcedureName.SNAPSHOT, service_id, state, operation_id=snapshot_id)
    services.add_hold(tx, service_id, snapshot_id)
    return snapshot_id


def submit_preparation(tx: sa.Connection, service_id: str, snapshot_id: str) -> None:
    """Submit what makes a snapshot quick to fork, if it is the newest one then."""
    submit(tx, ProcedureName.PREPARE, service_id, OneSnapshotState(snapshot_id=snapshot_id))


def release_holds(tx: sa.Connection, work: Work[Any]) -> None:
    """Release every service that the operation holds."""
    services.drop_holds(tx, work.operation_id)


def release_captured(tx: sa.Connection, work: Work[Any], captured: Capture) -> None:
    """Release the parent of what was captured; one that the recovery needs is released after that."""
    if not captured.needs_parent:
        release_holds(tx, work)


def finish(tx: sa.Connection, work: Work[Any], **columns: Any) -> None:
    """End the operation's claim on its service, and record the result.

    If a later operation (a delete) has claimed the service in the meantime, nothing is recorded.
    """
    services.drop_holds(tx, work.operation_id)
    services.finish_operation(tx, work.subject, work.operation_id, **columns)


def span_of_state_before(tx: sa.Connection, service_id: str, now: datetime) -> dict[str, Any] | None:
    """Return the column `life_span` of a state before a restore or an upgrade that is over now; lock its row."""
    before = services.get_service(tx, service_id, lock=True)
    if before is None or before.life_span is None:
        return None
    return services.life_span_column(before.life_span.of_state_before(now))
