"""Automatic pools: a service that is forked often as of now keeps warm forks although nobody has asked for them.

Many forks within an hour are the work of programs, and more will come. There are as many warm forks as came within ten
minutes, so that a batch that comes again finds all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from ramet.control import forks
from ramet.control.plane import Plane
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.warm_forks import AUTOMATIC, Pool, settings_but_warmth
from ramet.store.warm_forks import count_ports, fitting_forks, services_among

REQUEST = ForkRequest(ForkStrategy.NOW)  # what every warm fork is made for
OFTEN = 10
WITHIN = timedelta(hours=1)
BATCH_WITHIN = timedelta(minutes=10)
_LOOK_SECONDS = 10.0
_SHARE_OF_PORTS = 0.1
_FULL_ENOUGH = 0.8  # from this share of ports on, all that are left are for clients


@dataclass
class Demand:
    """How often services are forked. `most` is the size of the largest pool; 0: there is none."""

    plane: Plane
    most: int
    seconds: Callable[[], float]
    _looked_at: float = float("-inf")
    _pools: Mapping[str, Pool] = field(default_factory=dict)

    def pools(self) -> Mapping[str, Pool]:
        """Return the automatic pools, by the service that they are of, as they were some seconds ago."""
        if self.most and self.seconds() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at, self._pools = self.seconds(), self._look()
        return self._pools

    def _look(self) -> Mapping[str, Pool]:
        now, ports = self.plane.clock(), len(self.plane.placement.ports)
        with self.plane.store.read() as tx:
            asked = fitting_forks(tx, now - WITHIN, now)
            parents = services_among(tx, [one for one, known in asked.items() if len(known) >= OFTEN])
            room = int(min(_SHARE_OF_PORTS * ports, _FULL_ENOUGH * ports - count_ports(tx)))
        pools = {}
        for parent in parents:
            wanted = forks.child_of(self.plane, parent, REQUEST, now).settings
            times = [at for at, settings in asked[parent.id] if settings_but_warmth(settings) == wanted]
            size = min(self.most, room, largest_batch(times))
            if len(times) >= OFTEN and size > 0:
                pools[parent.id] = replace(AUTOMATIC, size=size)
                room -= size
        return pools


def largest_batch(times: Sequence[datetime]) -> int:
    """Return how many of these times, which are in order, are within ten minutes of each other."""
    largest, first = 0, 0
    for n, at in enumerate(times):
        while at - times[first] > BATCH_WITHIN:
            first += 1
        largest = max(largest, n - first + 1)
    return largest
