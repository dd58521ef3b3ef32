"""Waiting until a service, or a read replica set, has reached a status."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection
from ramet.client.errors import ApiError, TimedOut, WaitFailed, is_absence
from ramet.client.polling import poll
from ramet.errors import Error
from ramet.model.status import Status

_SEEN_EVERY_SECONDS = 1
_ON_THE_WAY = {
    Status.READY: (Status.QUEUED, Status.CONFIGURING, Status.RESUMING, Status.UPGRADING, Status.OPTIMIZING),
    Status.PAUSED: (Status.PAUSING, Status.UPGRADING),
    Status.DELETED: (Status.DELETING,),
}


class Waiting(Connection):
    """Waits that survive a restart of the server."""

    def wait_ready(
        self, service_id: str, timeout_seconds: float = 1800.0, seen: Callable[[Service], None] | None = None
    ) -> Service:
        """Wait until a service is READY. Raises TimedOut, or WaitFailed with the reason; `seen` gets each response."""
        return self._wait(service_id, Status.READY, timeout_seconds, seen)

    def wait_paused(
        self, service_id: str, timeout_seconds: float = 1800.0, seen: Callable[[Service], None] | None = None
    ) -> Service:
        """Wait until a service is PAUSED. Raises as `wait_ready` does."""
        return self._wait(service_id, Status.PAUSED, timeout_seconds, seen)

    def wait_deleted(
        self, service_id: str, timeout_seconds: float = 1800.0, seen: Callable[[Service], None] | None = None
    ) -> None:
        """Wait until a service is deleted. Raises as `wait_ready` does."""
        try:
            self._wait(service_id, Status.DELETED, timeout_seconds, seen)
        except ApiError as error:
            if not is_absence(error):
                raise

    def wait_snapshot(
        self, service_id: str, snapshot_id: str, timeout_seconds: float = 1800.0
    ) -> schemas.restore.Snapshot:
        """Wait until a manual snapshot is AVAILABLE. Raises TimedOut, or WaitFailed when it could not be taken."""
        status = schemas.restore.SnapshotStatus

        def available() -> schemas.restore.Snapshot | None:
            listed = self.call("GET", self.path(service_id, "snapshots"), list[schemas.restore.Snapshot])
            found = next((one for one in listed if one.id == snapshot_id), None)
            if found is None:
                message = f"Snapshot {snapshot_id} of service {service_id} could not be taken"
                raise WaitFailed("SNAPSHOT_FAILED", message, f"See 'ramet operations {service_id}'.")
            return found if found.status is status.AVAILABLE else None

        message = f"Snapshot {snapshot_id} is {status.CREATING} after {timeout_seconds:g} s"
        late = TimedOut("WAIT_TIMED_OUT", message, "It is taken all the same.")
        return poll(available, timeout_seconds, lambda: late)

    def wait_checkpoint(
        self, service_id: str, snapshot_id: str, timeout_seconds: float = 600.0
    ) -> schemas.restore.Snapshot:
        """Wait until a service can be rewound to a checkpoint; as `wait_snapshot`."""
        return self.wait_snapshot(service_id, snapshot_id, timeout_seconds)

    def _wait(
        self, service_id: str, wanted: Status, timeout_seconds: float, seen: Callable[[Service], None] | None
    ) -> Service:
        service: Service | None = None
        at_once = self.longest_wait_seconds if seen is None else _SEEN_EVERY_SECONDS
        deadline = time.monotonic() + timeout_seconds

        def arrived() -> Service | None:
            nonlocal service
            wait_seconds = min(at_once, math.floor(deadline - time.monotonic()))
            try:
                service = self.call("GET", self.path(service_id), Service, wait_seconds=wait_seconds)
            except Error:
                service = None
                raise
            if seen is not None:
                seen(service)
            return service if _has_arrived(service, wanted) else None

        return poll(arrived, timeout_seconds, lambda: _timed_out(service_id, wanted, timeout_seconds, service))


def _has_arrived(service: Service, wanted: Status) -> bool:
    if service.status == wanted:
        return True
    if service.status not in _ON_THE_WAY[wanted]:
        reason = service.metadata.status_reason
        raise WaitFailed(
            "SERVICE_FAILED",
            f"Service {service.service_id} is {service.status} instead of {wanted}",
            reason if isinstance(reason, str) else "",
        )
    return False


def _timed_out(service_id: str, wanted: Status, timeout_seconds: float, service: Service | None) -> TimedOut:
    now = "not answering" if service is None else str(service.status)
    return TimedOut(
        "WAIT_TIMED_OUT",
        f"Service {service_id} is {now} after {timeout_seconds:g} s, and not {wanted} yet",
        f"The operation continues; check with 'ramet service get {service_id}'.",
    )
