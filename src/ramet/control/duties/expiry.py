"""What the restore window no longer needs, of services of which no snapshot is taken: no snapshot removes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from ramet.control.duties.faults import Faults
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.plane import Plane
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.snapshot import newest
from ramet.model.status import OperationStatus
from ramet.model.timestamps import time_left
from ramet.procedures.expiry import expired, first_with_wal, keeps_all, rests
from ramet.procedures.spec import submit
from ramet.procedures.state import ExpiryState
from ramet.store import operations, services, snapshots

# Each snapshot removes what has expired; so does this where the last one is older.
_WITHOUT_SNAPSHOT = timedelta(hours=1)
_AFTER_FAILURE = timedelta(hours=1)
_REMOVING = (ProcedureName.SNAPSHOT, ProcedureName.EXPIRE)


@dataclass
class Expiry:
    """The duty. `now` is the time by which snapshots are old enough to be removed; `guard` looks at the storage.

    What the last removal of a service has done is in its state. WAL that the off-host archive did not have by then, and
    what could not be removed, is removed by the next one.
    """

    plane: Plane
    now: Callable[[], datetime]
    guard: StorageGuard
    _faults: Faults = field(default_factory=lambda: Faults("expired snapshots"))

    def remove_due(self) -> None:
        """Submit the removal for each service that has expired snapshots and takes none now.

        That is one which sleeps, or is only read, and each one while the storage is nearly full. A service that is
        paused or down, or receives nothing from its source, keeps what it has until then: somebody may want the state
        of before.
        """
        if self.plane.backend.copies.are_needed():
            return
        with self.plane.store.read() as tx:
            made = [service for service in services.live_services(tx) if service.ready_at is not None]
        for service in made:
            is_short = self.guard.is_nearly_full or (service.storage_warning is not None and not rests(service))
            if is_short or not keeps_all(service):
                with self._faults.contained(service.id):
                    self._remove(service, is_at_once=is_short)

    def _remove(self, service: Service, *, is_at_once: bool) -> None:
        now = self.now()
        with self.plane.store.read() as tx:
            known = snapshots.list_snapshots(tx, service.id)
            before = next(iter(operations.of_subject(tx, service.id, ProcedureName.EXPIRE, 1)), None)
        done = ExpiryState() if before is None else msgspec.convert(before.state, ExpiryState)
        last, is_at_once = newest(known), is_at_once or bool(done.retired)
        if last is None or (not is_at_once and now - last.taken_at < _WITHOUT_SNAPSHOT):
            return
        has_failed = before is not None and before.status is OperationStatus.FAILED
        if before is not None and has_failed and time_left(before.created_at, _AFTER_FAILURE, now):
            return
        oldest = first_with_wal(self.plane.backend, service, known)
        is_trimmed = oldest is None or oldest.id == done.trimmed_to
        volume_type = self.plane.backend.host.volume_type()
        if done.retired or not is_trimmed or expired(service, known, self.plane.restore, volume_type, now):
            self._submit(service.id, done.retired)

    def _submit(self, service_id: str, left: tuple[str, ...]) -> None:
        """Submit the removal, and that of the files which the last one has left."""
        with self.plane.change() as tx:
            service = services.get_service(tx, service_id, lock=True)
            is_changing = service is None or service.deleted_at is not None or service.activity is not None
            is_in_use = is_changing or services.holders(tx, service_id)
            if not is_in_use and not any(operations.under_way(tx, service_id, each) for each in _REMOVING):
                submit(tx, ProcedureName.EXPIRE, service_id, ExpiryState(retired=left))
