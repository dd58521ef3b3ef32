"""Snapshots that have a row and no files: an older store was restored, or somebody removed the files."""

import logging
from dataclasses import dataclass, field

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.store import services, snapshots

_log = logging.getLogger(__name__)


@dataclass
class LostSnapshots:
    """The duty: each service is compared with the host once in the life of a process."""

    plane: Plane
    _compared: set[str] = field(default_factory=set)
    _faults: Faults = field(default_factory=lambda: Faults("lost snapshots"))

    def remove(self) -> None:
        """Delete the rows of snapshots that are not there, so that forks use those that are."""
        with self.plane.store.read() as tx:
            known = [service.id for service in services.live_services(tx) if service.ready_at is not None]
        self._compared.intersection_update(known)
        for service_id in known:
            if service_id not in self._compared:
                with self._faults.contained(service_id):
                    if self._compare(service_id):
                        self._compared.add(service_id)

    def _compare(self, service_id: str) -> bool:
        """Delete the rows of what one service has lost; False when that cannot be known now."""
        with self.plane.store.read() as tx:
            rows = {snapshot.id for snapshot in snapshots.list_snapshots(tx, service_id)}
        # After the rows: the files of a snapshot are written before its row, and removed after it.
        kept = self.plane.backend.restore.snapshot_ids(service_id)
        if kept is None:
            return False
        lost = rows - kept
        if lost:
            with self.plane.store.write() as tx:
                service = services.get_service(tx, service_id, lock=True)
                is_changing = service is None or service.activity is not None  # its data may be replaced now
                if is_changing or services.holders(tx, service_id):
                    return False
                snapshots.delete_unheld(tx, service_id, lost, "")
            _log.warning("service %s: snapshots without files are deleted: %s", service_id, sorted(lost))
        return True
