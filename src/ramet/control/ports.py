"""The ports and the host that new servers get."""

import secrets
from itertools import chain, islice

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.errors import Exhausted, Unavailable
from ramet.ids import is_id
from ramet.store import services

_SPARE = 8


def free_ports(plane: Plane, count: int = 1, owner: str | None = None) -> list[int]:
    """Return ports that nothing uses now, in the order to reserve them: `count`, and some to spare, if there are any.

    It probes the ports of the host: not within a transaction. The same `owner` gets the same port first each time; one
    that is no id has none.
    """
    with plane.store.read() as tx:
        used = services.used_ports(tx)
    ports, host = plane.placement.ports, plane.backend.host
    # A random start: clients that still know a deleted service do not reach another one at its port at once, and two
    # installations on one host do not compete for the same port.
    start = int(owner, 36) % len(ports) if owner and is_id(owner) else secrets.randbelow(len(ports))
    rotated = chain(ports[start:], ports[:start])
    return list(islice((port for port in rotated if port not in used and host.port_is_free(port)), count + _SPARE))


def reserve_ports(plane: Plane, tx: sa.Connection, free: list[int], count: int = 1) -> list[int]:
    """Return the first `count` of the `free` ports that no row has, for rows of the same transaction.

    Raises Exhausted, or Unavailable when other requests have taken them in the meantime.
    """
    used, ports = services.used_ports(tx), plane.placement.ports
    found = [port for port in free if port not in used][:count]
    if len(found) == count:
        return found
    if len(free) >= count:
        raise Unavailable("PORTS_TAKEN", "Other requests have just taken the ports that were free", "Try again.")
    raise Exhausted(
        "NO_FREE_PORT",
        f"All ports from {ports.start} to {ports.stop - 1} are in use",
        "Delete a service, or widen RAMET_PORT_RANGE.",
    )


def endpoint_host(plane: Plane, pg_major: int) -> str:
    """Return the host that clients of services of a PostgreSQL version connect to."""
    return plane.placement.host_of(has_tls=plane.backend.host.has_tls(pg_major))
