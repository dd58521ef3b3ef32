"""Measures what each service occupies of its own: the blocks that it shares with no parent, fork or snapshot."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.errors import Error
from ramet.store import metrics

EVERY = timedelta(minutes=1)
_AT_WORK_SECONDS = 0.02
_REST = 50


@dataclass
class OwnSpace:
    """The duty. Measuring a service reads the extents of all of its files, which takes from milliseconds to seconds.

    Therefore it rests fifty times as long as it worked: no host spends more than one fiftieth of a core on it, and
    where there are many services, or large ones, they are measured less often.
    """

    plane: Plane
    clock: Callable[[], float] = time.monotonic
    _rests_until: float = float("-inf")
    _faults: Faults = field(default_factory=lambda: Faults("own space"))

    def measure(self) -> None:
        """Measure services that were not measured for a minute, longest ago first, until the time is used up."""
        begun = self.clock()
        if begun < self._rests_until:
            return
        now = self.plane.clock()
        with self.plane.store.read() as tx:
            due = metrics.due_for_own_space(tx, now, EVERY)
        found: dict[str, int | None] = {}
        for service_id in due:
            found[service_id] = None
            with self._faults.contained(service_id):
                found[service_id] = self._measured(service_id)
            if self.clock() - begun >= _AT_WORK_SECONDS:
                break
        self._rests_until = self.clock() + _REST * (self.clock() - begun)
        if found:
            with self.plane.store.write(durable=False, patient=True) as tx:
                metrics.put_own_space(tx, found, now)

    def _measured(self, service_id: str) -> int | None:
        try:
            return self.plane.backend.host.disk_usage(service_id)
        except (Error, OSError):
            return None
