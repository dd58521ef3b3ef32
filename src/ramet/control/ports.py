"""The ports and the host that new servers get."""

import secrets
from itertools import chain, islice

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.errors import Exhausted
from ramet.store import services


def reserve_port(plane: Plane, tx: sa.Connection, owner: str | None = None) -> int:
    """Return a free port, for a row of the same transaction. Raises Exhausted.

    The same `owner` (an id) gets the same port each time, unless something else has taken it.
    """
    return reserve_ports(plane, tx, 1, owner)[0]


def reserve_ports(plane: Plane, tx: sa.Connection, count: int, owner: str | None = None) -> list[int]:
    """Return `count` free ports, for rows of the same transaction. Raises Exhausted."""
    used, ports = services.used_ports(tx), plane.placement.ports
    # A random start: clients that still know a deleted service do not reach another one at its port at once, and two
    # installations on one host do not compete for the same port.
    start = secrets.randbelow(len(ports)) if owner is None else int(owner, 36) % len(ports)
    rotated = chain(ports[start:], ports[:start])
    found = list(islice((p for p in rotated if p not in used and plane.backend.host.port_is_free(p)), count))
    if len(found) == count:
        return found
    raise Exhausted(
        "NO_FREE_PORT",
        f"All ports from {ports.start} to {ports.stop - 1} are in use",
        "Delete a service, or widen RAMET_PORT_RANGE.",
    )


def endpoint_host(plane: Plane, pg_major: int) -> str:
    """Return the host that clients of services of a PostgreSQL version connect to."""
    return plane.placement.host_of(has_tls=plane.backend.host.has_tls(pg_major))
