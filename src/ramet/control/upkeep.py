"""What Ramet does unasked: it looks at the servers, restarts the crashed ones, and takes snapshots on schedule."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import SnapshotFacts
from ramet.control.poolers import submit_repair
from ramet.control.replica_repair import fault_of_set, note, renew_set, submit_restart
from ramet.control.room import RoomGuard
from ramet.errors import Unseen
from ramet.model.replica import ReplicaSet
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, SnapshotKind, newest
from ramet.model.window import RestoreSettings, settings_of
from ramet.operations.procedure import submit
from ramet.procedures.registry import FIRST_STEPS
from ramet.procedures.servers import server_of, submit_snapshot
from ramet.store import history, idempotency, operations, replicas, services, snapshots
from ramet.store.database import Store

_log = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_OLD_ENOUGH_SECONDS = 60
_FORGOTTEN_AT_ONCE = 500
_CLOCK_STEP = timedelta(seconds=2)


@dataclass(frozen=True)
class Cadence:
    """When a snapshot is due: so long after the last one, or after so much WAL, if anything was written at all."""

    interval: timedelta = timedelta(minutes=10)
    wal_bytes: int = 128 * 1024 * 1024

    @property
    def settings(self) -> RestoreSettings:
        """Return it as the restore settings of services that have none of their own."""
        return RestoreSettings(
            snapshot_interval_seconds=int(self.interval.total_seconds()), snapshot_wal_bytes=self.wal_bytes
        )


@dataclass
class Upkeep:
    """The periodic duties; one process does them at a time."""

    store: Store
    backend: Backend
    cadence: Cadence
    wake: Callable[[], None]
    clock: Callable[[], datetime]
    remembered: timedelta = timedelta(days=30)
    retention_clock: Callable[[], datetime] | None = None
    _room: RoomGuard = field(init=False)
    _renewed: set[str] = field(default_factory=set)
    _begun: datetime = field(init=False)
    _next_restart: dict[str, tuple[float, float]] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _written: dict[str, int] = field(default_factory=dict)
    _written_before: dict[str, int] = field(default_factory=dict)
    _clock_ahead: float | None = None
    _clock_went_back: bool = False

    def __post_init__(self) -> None:
        """Remember when this process began."""
        self._begun = self.clock()
        self._room = RoomGuard(self.store, self.backend)

    def renew_servers(self) -> None:
        """Give each serving service of earlier processes what this release gives to new ones, until that is done."""
        for service in self._serving_services():
            is_older = service.ready_at is not None and service.ready_at < self._begun
            is_due = is_older and service.down_reason is None and service.id not in self._renewed
            if is_due and self.backend.servers.upgrade(server_of(service)):
                self._renewed.add(service.id)
                self._renew_sets(service)

    def _renew_sets(self, service: Service) -> None:
        with self.store.read() as tx:
            sets = [each for each in replicas.live_sets(tx, service.id) if each.ready_at and not each.activity]
        for each in sets:
            renew_set(self.backend, each, service)

    def heed_readers(self) -> None:
        """Take the rights to write from roles that tenants marked as read-only."""
        for service in self._serving_services():
            if service.down_reason is None:
                self.backend.servers.heed_readers(server_of(service))

    def observe(self) -> None:
        """Look at each server that should be serving; restart those that are not, ever less often."""
        for service in self._serving_services():
            with _unless_unseen():
                self._observe_service(service)
        self._observe_replicas()

    def _observe_service(self, service: Service) -> None:
        observation = self.backend.servers.inspect(server_of(service))
        if observation.serving:
            self._note_serving(service.id)
            if service.down_reason is not None:
                self._note(service, None)
            self._repair_pooler(service)
        else:
            self._restart(service, observation.reason)

    def take_due_snapshots(self) -> None:
        """Submit a snapshot of each service for which one is due: by time, by WAL, or because it came to rest.

        None while the storage is nearly full: it would keep what tenants drop to make room.
        """
        self._written_before, self._written = self._written, {}
        self._clock_went_back = self._has_clock_gone_back()
        for service in self._serving_services():
            if service.down_reason is None and service.storage_warning is None and self._is_due(service):
                self.submit_snapshot(service, SnapshotKind.SCHEDULED)

    def trim_logs(self) -> None:
        """Keep the own logs of all servers within bounds."""
        with self.store.read() as tx:
            known = [service.id for service in services.all_live_services(tx) if service.ready_at is not None]
            known += [node.id for each in replicas.live_sets(tx) if each.ready_at is not None for node in each.nodes]
        for service_id in known:
            self.backend.servers.trim_log(service_id)

    def submit_snapshot(self, service: Service, kind: SnapshotKind) -> None:
        """Submit a snapshot unless one is under way."""
        with self.store.write() as tx:
            if operations.under_way(tx, service.id, "snapshot"):
                return
            submit_snapshot(tx, service.id, kind)
        self.wake()

    def guard_room(self) -> None:
        """Make all services read-only while the storage is nearly full: without room for WAL their servers go down."""
        self._room.guard(self._serving_services)

    def forget_history(self) -> None:
        """Remove some of the operations that have been over for longer than they are remembered, and of the keys."""
        before = (self.retention_clock or self.clock)() - self.remembered
        with self.store.write() as tx:
            count = history.forget(tx, before, _FORGOTTEN_AT_ONCE)
            idempotency.forget(tx, before, _FORGOTTEN_AT_ONCE)
        if count:
            _log.info("%d old operations are forgotten", count)

    def _serving_services(self) -> list[Service]:
        with self.store.read() as tx:
            known = services.all_live_services(tx)
        return [s for s in known if s.ready_at is not None and s.activity is None and not s.paused]

    def _is_due(self, service: Service) -> bool:
        with self.store.read() as tx:
            last = newest(snapshots.list_snapshots(tx, service.id))
        if last is None:
            return True
        written = self.backend.restore.written_since(server_of(service), _facts(last))
        if written is not None and (self._clock_went_back or last.taken_at > self.clock() + _CLOCK_STEP):
            return True  # the times from here on occur a second time: they get a base of their own
        if not written:
            return False
        self._written[service.id] = written
        due = settings_of(service.settings, self.cadence.settings)
        age_seconds = (self.clock() - last.taken_at).total_seconds()
        came_to_rest = self._written_before.get(service.id) == written and age_seconds >= _OLD_ENOUGH_SECONDS
        return written >= due.snapshot_wal_bytes or age_seconds >= due.snapshot_interval_seconds or came_to_rest

    def _has_clock_gone_back(self) -> bool:
        """Tell whether the clock was set back since the last call."""
        ahead, before = self.clock().timestamp() - time.monotonic(), self._clock_ahead
        self._clock_ahead = ahead
        return before is not None and ahead < before - _CLOCK_STEP.total_seconds()

    def _restart(self, service: Service, reason: str) -> None:
        if not self._is_due_again(service.id):
            return
        self._log_restart(service.id, f"server of service {service.id} is down, restarting it: {reason}")
        with self.store.write() as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is None or current.activity is not None or current.paused or current.deleted_at is not None:
                return
            operation_id = submit(tx, "restart", FIRST_STEPS["restart"], service.id, {})
            services.update_service(tx, service.id, operation_id=operation_id, down_reason=reason)
        self.wake()

    def _observe_replicas(self) -> None:
        """Look at each read replica set that should be serving; restart those that are not, ever less often."""
        with self.store.read() as tx:
            sets = [each for each in replicas.live_sets(tx) if each.ready_at and not each.activity]
        parents = {service.id: service for service in self._serving_services()} if sets else {}
        for each in sets:
            if each.service_id in parents:
                with _unless_unseen():
                    self._observe_set(each, parents[each.service_id])

    def _observe_set(self, replica_set: ReplicaSet, parent: Service) -> None:
        fault = fault_of_set(self.backend, replica_set, parent)
        if fault is None:
            self._note_serving(replica_set.id)
            note(self.store, replica_set, None)
        elif not fault.needs_restart:
            note(self.store, replica_set, fault.reason)
        elif self._is_due_again(replica_set.id) and submit_restart(self.store, replica_set, fault.reason):
            message = f"read replica set {replica_set.id} is down, restarting it: {fault.reason}"
            self._log_restart(replica_set.id, message)
            self.wake()

    def _repair_pooler(self, service: Service) -> None:
        key = f"pooler of {service.id}"
        if service.pooler_port is None or self.backend.poolers.serves(service.id):
            self._note_serving(key)
        elif self._is_due_again(key) and submit_repair(self.store, service):
            self._log_restart(key, f"the {key} is down, restarting it")
            self.wake()

    def _note_serving(self, key: str) -> None:
        self._known.add(key)
        self._next_restart.pop(key, None)

    def _log_restart(self, key: str, message: str) -> None:
        """Log a restart as a warning; but as information where this process has not seen the server before.

        Servers are down at a normal start: 'ramet down' or the shutdown of the host stopped them.
        """
        _log.log(logging.WARNING if key in self._known else logging.INFO, "%s", message)
        self._known.add(key)

    def _is_due_again(self, key: str) -> bool:
        """Tell whether what is down is to be started now; it is tried ever less often."""
        now = time.monotonic()
        due, pause = self._next_restart.get(key, (now, _FIRST_PAUSE_SECONDS))
        if now < due:
            return False
        self._next_restart[key] = (now + pause, min(pause * 2, _LONGEST_PAUSE_SECONDS))
        return True

    def _note(self, service: Service, reason: str | None) -> None:
        with self.store.write() as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is not None and current.activity is None:
                services.update_service(tx, service.id, down_reason=reason)


@contextmanager
def _unless_unseen() -> Iterator[None]:
    """Leave alone what could not be looked at: nothing is known of it, least of all that it is down."""
    try:
        yield
    except Unseen as error:
        _log.warning("%s", error)


def _facts(snapshot: Snapshot) -> SnapshotFacts:
    return SnapshotFacts(
        snapshot.taken_at,
        snapshot.start_lsn,
        snapshot.end_lsn,
        snapshot.timeline,
        snapshot.next_xid,
        snapshot.size_bytes,
    )
