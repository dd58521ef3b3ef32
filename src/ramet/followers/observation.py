"""Observing services that follow databases elsewhere: how far behind they are is recorded where clients see it."""

import logging
from dataclasses import dataclass
from datetime import timedelta

from ramet.control.plane import Plane
from ramet.control.subjects import serving_services
from ramet.errors import Error
from ramet.model.service import Service, is_standby
from ramet.model.upstream import Following
from ramet.procedures.servers import server_of
from ramet.store import services

_RECORD_EVERY = timedelta(seconds=5)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observing:
    """The duty."""

    plane: Plane

    def observe(self) -> None:
        """Observe each standby that serves; record what changed, and how far behind it is every few seconds."""
        for service in serving_services(self.plane.store):
            if service.upstream is not None and self._is_due(service):
                try:
                    found = self._observed(service)
                except (Error, OSError) as error:
                    _log.warning("service %s could not be observed: %s", service.id, error)
                    continue
                if found is not None and _is_news(service, found):
                    self._record(service, found)

    def _is_due(self, service: Service) -> bool:
        """Tell whether to observe a service now: a session in the source is opened for a subscription."""
        seen = service.following
        return is_standby(service) or seen is None or self.plane.clock() - seen.observed_at >= _RECORD_EVERY

    def _observed(self, service: Service) -> Following | None:
        if is_standby(service):
            return self.plane.backend.followers.observe(server_of(service))
        state = self.plane.backend.subscriptions.observe(server_of(service))
        return Following(observed_at=self.plane.clock(), lag_bytes=state.lag_bytes, problem=state.problem)

    def _record(self, service: Service, found: Following) -> None:
        before = None if service.following is None else service.following.problem
        if found.problem is not None and found.problem != before:
            _log.warning("service %s: %s", service.id, found.problem)
        with self.plane.store.write(durable=False) as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is not None and current.activity is None and current.upstream is not None:
                services.record_following(tx, service.id, found)


def _is_news(service: Service, found: Following) -> bool:
    known = service.following
    return (
        known is None or known.problem != found.problem or abs(found.observed_at - known.observed_at) >= _RECORD_EVERY
    )
