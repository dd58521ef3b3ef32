"""Services are read-only while the storage is nearly full; their `storage_warning` says so."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.model.service import Service
from ramet.procedures.servers import server_of
from ramet.store import services

Reasons = Mapping[str, str | None]
_log = logging.getLogger(__name__)
_CHECK_SERVICES_SECONDS = 1.0
_AT_ONCE = 16


@dataclass
class StorageGuard:
    """The duty: it checks the storage often, and once a second the services, which another process may have changed.

    `is_nearly_full` is what it found the last time.
    """

    plane: Plane
    is_nearly_full: bool = False
    _is_short: bool = False
    _checked_at: float | None = None
    _faults: Faults = field(default_factory=lambda: Faults("storage guard"))

    def check(self) -> None:
        """Make serving services read-only while the storage is nearly full, and writable again when there is space.

        Without space for WAL their servers go down.
        """
        pressure = self.plane.backend.host.storage_pressure(None, lasting=self._is_short)
        now = time.monotonic()
        is_new = (pressure is not None) is not self._is_short
        if not is_new and self._checked_at is not None and now - self._checked_at < _CHECK_SERVICES_SECONDS:
            return
        self._checked_at = now
        known = self._serving()
        quota = self._quota_pressure(known)
        if pressure is None and not self._is_short and any(s.storage_warning and s.id not in quota for s in known):
            pressure = self.plane.backend.host.storage_pressure(
                None, lasting=True
            )  # another process has made them read-only
        reasons = {service.id: pressure or quota.get(service.id) for service in known}
        concerned = [service for service in known if reasons[service.id] or service.storage_warning]
        self._warn([service for service in concerned if service.storage_warning is None], reasons)
        left = self._set_all(concerned, reasons)
        self.is_nearly_full = pressure is not None
        self._is_short = self.is_nearly_full or bool(left)

    def _serving(self) -> Sequence[Service]:
        """Return the services that clients can fill: an operation may leave its service serving for hours."""
        with self.plane.store.read() as tx:
            made = [s for s in services.live_services(tx) if s.ready_at is not None and not s.paused]
        serving = [service for service in made if service.activity is None]
        for service in made:
            with self._faults.contained(service.id):
                if service.activity is not None and self.plane.backend.servers.inspect(server_of(service)).serving:
                    serving.append(service)
        return serving

    def _quota_pressure(self, known: Sequence[Service]) -> Mapping[str, str]:
        """Return why services have nearly used up their own quotas, by id."""
        found = {}
        for service in known:
            reason = service.storage_warning  # stays as it is when that cannot be measured
            with self._faults.contained(service.id):
                reason = self.plane.backend.host.storage_pressure(server_of(service), lasting=reason is not None)
            if reason is not None:
                found[service.id] = reason
        return found

    def _warn(self, services_: Sequence[Service], reasons: Reasons) -> None:
        """Record the pressure before a service is made read-only: otherwise it might stay so for good."""
        if not services_:
            return
        with self.plane.store.write() as tx:
            for service in services_:
                services.update_service(tx, service.id, storage_warning=reasons[service.id])
        for service in services_:
            _log.error("service %s is read-only: %s", service.id, reasons[service.id])

    def _set_all(self, concerned: Sequence[Service], reasons: Reasons) -> Sequence[Service]:
        """Change all servers at once, so that none waits for a slow one; return those that could not be changed."""
        if not concerned:
            return []
        with ThreadPoolExecutor(min(_AT_ONCE, len(concerned)), "storage-guard") as threads:
            changed = list(
                threads.map(lambda one: self._set_read_only(one, read_only=bool(reasons[one.id])), concerned)
            )
        answers = list(zip(concerned, changed, strict=True))
        freed = [service for service, is_changed in answers if is_changed and not reasons[service.id]]
        if freed:
            with self.plane.store.write() as tx:
                for service in freed:
                    services.update_service(tx, service.id, storage_warning=None)
        return [service for service, is_changed in answers if not is_changed]

    def _set_read_only(self, service: Service, *, read_only: bool) -> bool:
        """Tell whether that worked; where the server does not serve, it is tried again."""
        is_left = True
        with self._faults.contained(service.id):
            self.plane.backend.servers.set_read_only(server_of(service), read_only=read_only)
            is_left = False
        return not is_left
