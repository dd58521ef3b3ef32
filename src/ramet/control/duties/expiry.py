"""What the restore window no longer needs, of services of which no snapshot is taken: no snapshot removes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.model.procedures import ProcedureName
from ramet.model.restore_window import is_sparing, settings_of
from ramet.model.service import Service
from ramet.model.snapshot import newest, retired
from ramet.procedures.spec import submit
from ramet.procedures.state import ExpiryState
from ramet.store import operations, services, snapshots

# Each snapshot removes what has expired; so does this where the last one is older.
_WITHOUT_SNAPSHOT = timedelta(hours=1)


@dataclass
class Expiry:
    """The duty. `now` is the time by which snapshots are old enough to be removed."""

    plane: Plane
    now: Callable[[], datetime]
    _faults: Faults = field(default_factory=lambda: Faults("expired snapshots"))

    def remove_due(self) -> None:
        """Submit the removal for each service that has expired snapshots and takes none now.

        That is one which sleeps, or is only read, and each one while the storage is nearly full. A service that is
        paused or down keeps what it has until then: somebody may want the state of before.
        """
        if self.plane.backend.copies.are_needed():
            return
        is_short = self.plane.backend.host.storage_pressure(None, lasting=True) is not None
        with self.plane.store.read() as tx:
            made = [service for service in services.live_services(tx) if service.ready_at is not None]
        for service in made:
            is_short_of_room = is_short or service.storage_warning is not None
            rests = (service.paused and not service.asleep) or service.down_reason is not None
            if is_short_of_room or not rests:
                with self._faults.contained(service.id):
                    self._remove(service, is_at_once=is_short_of_room)

    def _remove(self, service: Service, *, is_at_once: bool) -> None:
        with self.plane.store.read() as tx:
            known = snapshots.list_snapshots(tx, service.id)
        last, now = newest(known), self.now()
        if last is None or (not is_at_once and now - last.taken_at < _WITHOUT_SNAPSHOT):
            return
        window = settings_of(service.settings, self.plane.restore).window
        sparing = is_sparing(self.plane.backend.host.volume_type(), service.settings)
        if retired(known, now, window, is_sparing=sparing):
            self._submit(service.id)

    def _submit(self, service_id: str) -> None:
        with self.plane.change() as tx:
            service = services.get_service(tx, service_id, lock=True)
            is_changing = service is None or service.deleted_at is not None or service.activity is not None
            is_in_use = is_changing or services.holders(tx, service_id)
            is_under_way = any(operations.under_way(tx, service_id, each) for each in _REMOVING)
            if not is_in_use and not is_under_way:
                submit(tx, ProcedureName.EXPIRE, service_id, ExpiryState())


_REMOVING = (ProcedureName.SNAPSHOT, ProcedureName.EXPIRE)
