"""What the restore window no longer needs, of services of which no snapshot is taken: no snapshot removes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ramet.control.duties.faults import Faults
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.plane import Plane
from ramet.model.archive import awaits_archive, is_archived
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, newest, rollable
from ramet.procedures.expiry import expired
from ramet.procedures.spec import submit
from ramet.procedures.state import ExpiryState
from ramet.store import operations, services, snapshots

# Each snapshot removes what has expired; so does this where the last one is older.
_WITHOUT_SNAPSHOT = timedelta(hours=1)
_REMOVING = (ProcedureName.SNAPSHOT, ProcedureName.EXPIRE)


@dataclass
class Expiry:
    """The duty. `now` is the time by which snapshots are old enough to be removed; `guard` looks at the storage.

    It remembers, where there is an off-host archive, the oldest snapshot of a service after whose WAL was removed:
    WAL that the archive does not have yet stays, and nothing else would remove it later.
    """

    plane: Plane
    now: Callable[[], datetime]
    guard: StorageGuard
    _trimmed_to: dict[str, str] = field(default_factory=dict)
    _faults: Faults = field(default_factory=lambda: Faults("expired snapshots"))

    def remove_due(self) -> None:
        """Submit the removal for each service that has expired snapshots and takes none now.

        That is one which sleeps, or is only read, and each one while the storage is nearly full. A service that is
        paused or down keeps what it has until then: somebody may want the state of before.
        """
        if self.plane.backend.copies.are_needed():
            return
        with self.plane.store.read() as tx:
            made = [service for service in services.live_services(tx) if service.ready_at is not None]
        for service in made:
            rests = (service.paused and not service.asleep) or service.down_reason is not None
            is_short = self.guard.is_nearly_full or (not rests and service.storage_warning is not None)
            if is_short or not rests:
                with self._faults.contained(service.id):
                    self._remove(service, is_at_once=is_short)

    def _remove(self, service: Service, *, is_at_once: bool) -> None:
        with self.plane.store.read() as tx:
            known = snapshots.list_snapshots(tx, service.id)
        last, now = newest(known), self.now()
        if last is None or (not is_at_once and now - last.taken_at < _WITHOUT_SNAPSHOT):
            return
        archived = self._first_archived(service, known)
        has_expired = expired(service, known, self.plane.restore, self.plane.backend.host.volume_type(), now)
        is_due = has_expired or archived not in (None, self._trimmed_to.get(service.id))
        if is_due and self._submit(service.id) and archived is not None:
            self._trimmed_to[service.id] = archived

    def _first_archived(self, service: Service, known: list[Snapshot]) -> str | None:
        """Return the oldest snapshot before which the off-host archive has all WAL; None where it waits for WAL."""
        if self.plane.backend.archive.url() is None or not is_archived(service):
            return None
        oldest = next(iter(rollable(known)), None)
        return None if oldest is None or awaits_archive(service, oldest.taken_at) else oldest.id

    def _submit(self, service_id: str) -> bool:
        with self.plane.change() as tx:
            service = services.get_service(tx, service_id, lock=True)
            is_changing = service is None or service.deleted_at is not None or service.activity is not None
            is_in_use = is_changing or services.holders(tx, service_id)
            if is_in_use or any(operations.under_way(tx, service_id, each) for each in _REMOVING):
                return False
            submit(tx, ProcedureName.EXPIRE, service_id, ExpiryState())
            return True
