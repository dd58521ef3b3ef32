"""Whether this process can do its work now."""

import sqlalchemy as sa

from ramet.control.plane import Plane


def check_ready(plane: Plane) -> None:
    """Read from the store. Raises Unavailable while it cannot be reached, and when it could not be flushed."""
    with plane.store.read(settled=True) as tx:
        tx.execute(sa.text("SELECT 1"))
