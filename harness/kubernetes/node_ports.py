"""Ports of the node for services: those of tests that run at the same time do not meet."""

import os

_FIRST, _EACH, _WORKERS = 30000, 500, 4


def node_ports() -> range:
    """Return the ports that this process may use: each worker of pytest has its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    return range(_FIRST + worker * _EACH, _FIRST + (worker + 1) * _EACH)
