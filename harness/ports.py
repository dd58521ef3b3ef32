"""Free TCP ports, outside of the range that the kernel lends to outgoing connections."""

import contextlib
import itertools
import random
import socket

_PORTS = range(10000, 15000)
_SERVICE_PORTS = range(20000, 32000)
# Each process goes through the ports in order from a place of its own: two processes hardly choose the same one.
_offsets = itertools.count(random.randrange(len(_PORTS)))  # noqa: S311 - no secret


def free_port() -> int:
    """Return a port that nothing listens on; nothing is given it before it is used."""
    while True:
        port = _PORTS[next(_offsets) % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def service_ports(count: int = 500) -> range:
    """Return a range of ports for the services of one Ramet, which probes each before it assigns it."""
    first = random.randrange(_SERVICE_PORTS.start, _SERVICE_PORTS.stop - count)  # noqa: S311 - no secret
    return range(first, first + count)
