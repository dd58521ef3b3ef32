"""Services are read-only while the storage is nearly full, and say so."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ramet.backends.interface.backend import Backend
from ramet.errors import Unavailable
from ramet.model.service import Service
from ramet.procedures.servers import server_of
from ramet.store import services
from ramet.store.database import Store

Reasons = Mapping[str, str | None]
_log = logging.getLogger(__name__)
_TELL_EVERY_SECONDS = 1.0
_TOLD_AT_ONCE = 16


class RoomGuard:
    """Looks at the room often, and once a second at the services, which another process may have held."""

    def __init__(self, store: Store, backend: Backend) -> None:
        self._store = store
        self._backend = backend
        self._is_short = False
        self._told_at: float | None = None

    def guard(self, serving: Callable[[], Sequence[Service]]) -> None:
        """Hold the writes of all serving services at a shortage, and lift that when it is over."""
        shortage = self._backend.host.storage_pressure(None, lasting=self._is_short)
        now = time.monotonic()
        is_new = (shortage is not None) is not self._is_short
        if not is_new and self._told_at is not None and now - self._told_at < _TELL_EVERY_SECONDS:
            return
        self._told_at = now
        known = serving()
        quota = self._quota_shortages(known)
        if shortage is None and not self._is_short and any(s.storage_warning and s.id not in quota for s in known):
            shortage = self._backend.host.storage_pressure(
                None, lasting=True
            )  # an earlier process, or another one, has held them
        reasons = {service.id: shortage or quota.get(service.id) for service in known}
        concerned = [service for service in known if reasons[service.id] or service.storage_warning]
        self._warn([service for service in concerned if service.storage_warning is None], reasons)
        left = self._tell(concerned, reasons)
        self._is_short = shortage is not None or bool(left)

    def _quota_shortages(self, known: Sequence[Service]) -> Mapping[str, str]:
        """Return why services are short of their own quotas, by id."""
        found = {}
        for service in known:
            lasting = service.storage_warning is not None
            reason = self._backend.host.storage_pressure(server_of(service), lasting=lasting)
            if reason is not None:
                found[service.id] = reason
        return found

    def _warn(self, services_: Sequence[Service], reasons: Reasons) -> None:
        """Note the shortage before anything is held: what is held and not noted would never be lifted."""
        if not services_:
            return
        with self._store.write() as tx:
            for service in services_:
                services.update_service(tx, service.id, storage_warning=reasons[service.id])
        for service in services_:
            _log.error("service %s is read-only: %s", service.id, reasons[service.id])

    def _tell(self, concerned: Sequence[Service], reasons: Reasons) -> Sequence[Service]:
        """Tell all servers at once, so that a slow one keeps none from it; return those that were not told."""
        if not concerned:
            return []
        with ThreadPoolExecutor(min(_TOLD_AT_ONCE, len(concerned)), "room") as threads:
            told = list(threads.map(lambda service: self._was_told(service, held=bool(reasons[service.id])), concerned))
        answers = list(zip(concerned, told, strict=True))
        freed = [service for service, was_told in answers if was_told and not reasons[service.id]]
        if freed:
            with self._store.write() as tx:
                for service in freed:
                    services.update_service(tx, service.id, storage_warning=None)
        return [service for service, was_told in answers if not was_told]

    def _was_told(self, service: Service, *, held: bool) -> bool:
        try:
            self._backend.servers.set_read_only(server_of(service), read_only=held)
        except (Unavailable, OSError) as error:
            _log.warning("service %s is not serving, and is not told of the room: %s", service.id, error)
            return False
        return True
