"""The disk space that only one service uses, cached, because measuring it takes longer than rendering a page."""

import time
from collections.abc import Callable, Iterable

from ramet.control.plane import Plane
from ramet.errors import Error
from ramet.model.service import Service

_FRESH_SECONDS = 20.0
_BUDGET_SECONDS = 0.02


class DiskUsage:
    """Sizes by service. Each page measures for a short time only; the rest is left to later pages."""

    def __init__(self, plane: Plane, clock: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._clock = clock
        self._known: dict[str, tuple[int | None, float]] = {}

    def of(self, services: Iterable[Service]) -> dict[str, int | None]:
        """Return the bytes that only this service uses, not shared with forks; None where the host cannot measure it.

        Services that are being created or were not measured yet are missing.
        """
        until = self._clock() + _BUDGET_SECONDS
        found: dict[str, int | None] = {}
        for service_id in (service.id for service in services if service.ready_at is not None):
            _, at = self._known.get(service_id, (None, float("-inf")))
            if self._clock() < until and self._clock() - at >= _FRESH_SECONDS:
                self._known[service_id] = (self._measure(service_id), self._clock())
            if service_id in self._known:
                found[service_id] = self._known[service_id][0]
        return found

    def _measure(self, service_id: str) -> int | None:
        try:
            return self._plane.backend.host.disk_usage(service_id)
        except (Error, OSError):
            return None
