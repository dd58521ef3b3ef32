"""Free TCP ports, outside of the range that the kernel lends to outgoing connections."""

import contextlib
import itertools
import os
import random
import socket

_WORKERS = 8
_PORTS_OF_A_WORKER = 1200
# Each worker of pytest has its own ports. Each process goes through them in order from a random place, so that two
# processes rarely choose the same one.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_PORTS = range(10000 + _worker * _PORTS_OF_A_WORKER, 10000 + (_worker + 1) * _PORTS_OF_A_WORKER)
_SERVICE_PORTS = range(20000, 32000)
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
