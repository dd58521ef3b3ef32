"""New servers are refused when the host has no memory for them, instead of starting them all and losing some."""

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.errors import Exhausted
from ramet.store import services


def startable(plane: Plane) -> int | None:
    """Return how many more servers the host has memory for; None: that is decided elsewhere. Not in a transaction."""
    return plane.backend.admission.startable()


def check_admission(tx: sa.Connection, room: int | None, more: int) -> None:
    """Raise Exhausted when the host has no memory for so many more servers beside those that are being created.

    `room` is what `startable` has found. Ports are reserved before: so no other request adds services at the same time.
    """
    if room is None:
        return
    starting = services.count_starting(tx)
    if starting + more > room:
        raise Exhausted(
            "HOST_FULL",
            f"The host has memory for {max(0, room - starting)} more servers now, and this needs {more}"
            f" ({starting} are being created)",
            "Pause or delete services, wait until those are created, or lower RAMET_MEMORY_RESERVE_PERCENT.",
        )
