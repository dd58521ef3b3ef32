"""What the procedures share: their tools, and steps that several of them take."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import Capture, Server
from ramet.errors import Failed, Unavailable
from ramet.ids import new_id
from ramet.model.moments import time_left
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.operations.procedure import Changes, Next, Wait, Work, submit
from ramet.store import operations, services, snapshots
from ramet.store.database import Store

PATIENCE_SECONDS = 0.4
MOST_KILLS = 5
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Tools:
    """What a procedure works with. `rest` is how long a new fork is left alone by work that can wait.

    `retention_clock` tells by which time snapshots are old enough to be removed; None: by `clock`.
    """

    store: Store
    backend: Backend
    clock: Callable[[], datetime]
    rest: timedelta = timedelta(seconds=10)
    retention_clock: Callable[[], datetime] | None = None

    def service(self, service_id: str) -> Service:
        """Return a service's row; it exists as long as an operation names it."""
        with self.store.read() as tx:
            found = services.get_service(tx, service_id)
        if found is None:
            raise AssertionError(f"BUG: service {service_id} has an operation but no row")
        return found

    def server(self, work: Work) -> Server:
        """Return the server that an operation is about."""
        return server_of(self.service(work.subject))


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
    )


def await_settled(tools: Tools, work: Work) -> Wait | None:
    """Return a Wait while the operation that this one interrupts is under way, or others copy from the service."""
    interrupted = work.state.get("interrupted")
    with tools.store.read() as tx:
        if interrupted is not None and operations.is_under_way(tx, interrupted):
            return Wait(0.05, f"operation {interrupted}")
        holders = [h for h in services.holders(tx, work.subject) if h != work.operation_id]
    return Wait(0.05, f"held by {', '.join(holders)}") if holders else None


def recover(tools: Tools, work: Work, server: Server) -> dict[str, Any] | Wait | Next:
    """Take the recovery of what was captured further; its facts when it is over, an outcome to return until then."""
    captured = capture_of(work)
    if captured is None:
        raise AssertionError("BUG: recovery comes after capture")
    recovery = outliving_kills(work, lambda: tools.backend.restore.recover(server, captured, PATIENCE_SECONDS))
    if isinstance(recovery, Next):
        return recovery
    return Wait(0, recovery.progress) if recovery.facts is None else recovery.facts


def boot(tools: Tools, work: Work, *, first: bool = False) -> Wait | Next | None:
    """Start the server closed to clients unless it runs, and watch it for a moment; None when it is ready."""
    return boot_server(tools, work, tools.server(work), first=first)


def boot_server(tools: Tools, work: Work, server: Server, *, first: bool = False) -> Wait | Next | None:
    """Start a server closed to clients unless it runs, and watch it for a moment; None when it is ready."""
    tools.backend.servers.start(server, first=first)
    return _watched(tools, work, server)


def reboot(tools: Tools, work: Work) -> Wait | Next | None:
    """Start a server that was open before unless it runs, and watch it for a moment; None when it is ready."""
    server = tools.server(work)
    tools.backend.servers.start(server, clients=True)
    return _watched(tools, work, server)


def _watched(tools: Tools, work: Work, server: Server) -> Wait | Next | None:
    readiness = outliving_kills(work, lambda: tools.backend.servers.await_ready(server, PATIENCE_SECONDS))
    if isinstance(readiness, Next):
        return readiness
    return None if readiness.ready else Wait(0, readiness.progress)


def outliving_kills(work: Work, act: Callable[[], _Result], again: str | None = None) -> _Result | Next:
    """Work on a server. When it is killed meanwhile, go on at the step `again` (None: this one), a few times.

    One that gave up by itself fails at once.
    """
    try:
        return act()
    except Unavailable as killed:
        kills = work.state.get("kills", 0) + 1
        if kills > MOST_KILLS:
            raise Failed(killed.code, f"{killed.message}; that happened {kills} times", killed.details) from killed
        return Next(again or work.step, {"kills": kills})


def take_snapshot(tools: Tools, work: Work, kind: SnapshotKind) -> Snapshot | Wait:
    """Make the snapshot whose id the operation carries; a Wait while its server is not serving."""
    service = tools.service(work.subject)
    snapshot_id = work.state["snapshot_id"]
    facts = tools.backend.restore.take_snapshot(server_of(service), snapshot_id, service.paused)
    if facts is None:
        return Wait(0.1, "the server is not serving")
    return Snapshot(
        snapshot_id,
        service.id,
        kind,
        facts.taken_at,
        facts.start_lsn,
        facts.end_lsn,
        facts.timeline,
        facts.next_xid,
        facts.size_bytes,
        work.state.get("name"),
    )


def recording(snapshot: Snapshot) -> Changes:
    """Return the change that records a snapshot."""
    return lambda tx: snapshots.insert_snapshot(tx, snapshot)


def seconds_to_rest(tools: Tools, service: Service) -> float:
    """Return how long a fork is left alone yet: many live for seconds only, while others are made beside them."""
    if service.origin is None or service.ready_at is None:
        return 0.0
    return time_left(service.ready_at, tools.rest, tools.clock()).total_seconds()


def submit_snapshot(tx: sa.Connection, service_id: str, kind: SnapshotKind, name: str | None = None) -> str:
    """Submit a snapshot, which holds its service until it is taken; return the snapshot's id."""
    snapshot_id = new_id()
    state = {"snapshot_id": snapshot_id, "kind": kind.value, "name": name}
    services.add_hold(tx, service_id, submit(tx, "snapshot", "take", service_id, state))
    return snapshot_id


def submit_preparation(tx: sa.Connection, service_id: str, snapshot_id: str) -> None:
    """Submit what makes a snapshot quick to fork, if it is the newest one then."""
    submit(tx, "prepare", "rest", service_id, {"snapshot_id": snapshot_id})


def capture_of(work: Work) -> Capture | None:
    """Return the capture that an earlier step stored, if any."""
    stored = work.state.get("capture")
    return None if stored is None else msgspec.convert(stored, Capture)


def stored(capture: Capture) -> dict[str, Any]:
    """Return a capture in the form that an operation's state holds."""
    found: dict[str, Any] = msgspec.to_builtins(capture)
    return found


def let_go(tx: sa.Connection, work: Work, _error: str = "") -> None:
    """Release every service that the operation holds."""
    services.drop_holds(tx, work.operation_id)


def finish(tx: sa.Connection, work: Work, **columns: Any) -> None:
    """End the operation's claim on its service, and write what it came to.

    A later operation (a delete) may have claimed the service meanwhile: then nothing is written.
    """
    services.drop_holds(tx, work.operation_id)
    services.finish_operation(tx, work.subject, work.operation_id, **columns)
