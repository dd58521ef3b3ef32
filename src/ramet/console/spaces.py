"""How much space services occupy alone, remembered for a while: asking the host costs more than drawing a page."""

import time
from collections.abc import Callable, Iterable

from ramet.control.control import Control
from ramet.errors import Error
from ramet.model.service import Service

_FRESH_SECONDS = 20.0
_BUDGET_SECONDS = 0.05


class Spaces:
    """Sizes by service. What is not known within a page's time is asked for by a later page."""

    def __init__(self, control: Control, clock: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._clock = clock
        self._known: dict[str, tuple[int | None, float]] = {}

    def of(self, services: Iterable[Service]) -> dict[str, int]:
        """Return the bytes that services occupy alone, as far as they are known; those being made have none yet."""
        until = self._clock() + _BUDGET_SECONDS
        found = {}
        for service_id in (service.id for service in services if service.born_at is not None):
            size, at = self._known.get(service_id, (None, -_FRESH_SECONDS))
            if self._clock() < until and self._clock() - at >= _FRESH_SECONDS:
                size = self._ask(service_id)
                self._known[service_id] = (size, self._clock())
            if size is not None:
                found[service_id] = size
        return found

    def _ask(self, service_id: str) -> int | None:
        try:
            return self._control.backend.space_bytes(service_id)
        except (Error, OSError):
            return None
