"""How many more servers the place where they run can bear."""

from typing import Protocol

from ramet.model.capacity import Capacity


class Admission(Protocol):
    """What servers share beside storage and ports."""

    def capacity(self) -> Capacity:
        """Return what bounds the servers, as it is now; without bounds where somebody else decides that."""
