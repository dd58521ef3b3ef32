"""How many servers a host can bear: what bounds them, and the memory that each of them may come to need."""

from collections.abc import Sequence

from msgspec import Struct

from ramet.model.environment import Environment
from ramet.model.size import Size

_MB_PER_GB = 1024
# shared_buffers and the processes of a few clients.
_SHARED_SIZE_MBS = 64
# The largest shared_buffers of a DEV service: most of them are forks that have the size of their parent, and rest.
_DEV_MBS = 256


class Bound(Struct, frozen=True):
    """Something that all servers of a host share. Of `most`, `used` are in use now, and each server takes `each`.

    `unit` says what is counted, `source` what sets `most`, and `remedy` how to have more of it.
    """

    name: str
    unit: str
    most: int
    used: int
    each: int
    source: str
    remedy: str

    @property
    def room(self) -> int:
        """How many more servers there is room for."""
        return max(0, self.most - self.used) // self.each


class Capacity(Struct, frozen=True):
    """What bounds the servers of a host, and how much memory all that run may come to need.

    None for `committed_mbs`, and no bounds: somebody else decides where there is room.
    """

    bounds: Sequence[Bound] = ()
    committed_mbs: int | None = None

    @property
    def tightest(self) -> Bound | None:
        """The bound that leaves room for the fewest servers."""
        return min(self.bounds, key=lambda bound: bound.room, default=None)


def memory_needed_mbs(size: Size, environment: Environment) -> int:
    """Return the memory that a server of that size may come to need: all of it in production."""
    if size.memory_gbs is None:
        return _SHARED_SIZE_MBS
    return size.memory_gbs * _MB_PER_GB if environment is Environment.PROD else _DEV_MBS
