"""Automatic pools: a service that is forked often as of now keeps warm forks although nobody has asked for them.

Many forks within an hour are the work of programs, and more will come. There are as many warm forks as came within the
last minutes, so that a batch that comes again finds all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from msgspec.structs import replace

from ramet.control.plane import Plane
from ramet.model.warm_forks import AUTOMATIC, Pool
from ramet.store.warm_forks import count_fitting

OFTEN = 10
WITHIN = timedelta(hours=1)
_BATCH_WITHIN = timedelta(minutes=10)
_LOOK_SECONDS = 10.0


@dataclass
class Demand:
    """How often services are forked. `most` is the size of the largest pool; 0: there is none."""

    plane: Plane
    most: int
    seconds: Callable[[], float]
    _looked_at: float = float("-inf")
    _pools: Mapping[str, Pool] = field(default_factory=dict)

    def pools(self) -> Mapping[str, Pool]:
        """Return the automatic pools, by the service that they are of."""
        if self.most and self.seconds() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at, self._pools = self.seconds(), self._count()
        return self._pools

    def _count(self) -> Mapping[str, Pool]:
        now = self.plane.clock()
        with self.plane.store.read() as tx:
            found = count_fitting(tx, now - WITHIN, now - _BATCH_WITHIN, now)
        return {
            one: replace(AUTOMATIC, size=max(1, min(self.most, recent)))
            for one, (every, recent) in found.items()
            if every >= OFTEN
        }
