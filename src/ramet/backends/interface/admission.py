"""How many more servers the place where they run can bear."""

from typing import Protocol


class Admission(Protocol):
    """The memory that servers share."""

    def startable(self) -> int | None:
        """Return how many more small servers there is memory for now; None where somebody else decides that."""
