"""Fixtures for tests with real servers."""

from collections.abc import Iterator

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.volumes.image import why_impossible
from tests.backends.local.forks import create, destroy_all, make_backend, services_of
from tests.backends.local.hosts import make_servers
from tests.backends.local.pools import DRIVERS


@pytest.fixture(scope="session")
def instances() -> Iterator[Instances]:
    """The servers of one data root for the whole session."""
    with make_servers() as made:
        yield made


@pytest.fixture(scope="session", params=DRIVERS)
def backend_of_driver(request: pytest.FixtureRequest) -> Iterator[LocalBackend]:
    """A whole backend over each storage driver in turn."""
    with make_backend(request.param) as made:
        yield made


@pytest.fixture(scope="session")
def usual_backend() -> Iterator[LocalBackend]:
    """A whole backend over the storage that a host usually has: shared blocks, or else plain copies."""
    with make_backend("copy" if why_impossible("xfs") else "reflink") as made:
        yield made


@pytest.fixture
def each_backend(backend_of_driver: LocalBackend) -> Iterator[LocalBackend]:
    """An empty backend of each driver; what a test makes in it is destroyed."""
    yield backend_of_driver
    destroy_all(backend_of_driver)


@pytest.fixture
def backend(usual_backend: LocalBackend) -> Iterator[LocalBackend]:
    """A backend, empty but for what the module shares; what a test makes in it is destroyed."""
    shared = frozenset(services_of(usual_backend))
    yield usual_backend
    destroy_all(usual_backend, but=shared)


@pytest.fixture
def parent(backend: LocalBackend) -> Server:
    """A running service of `backend` with an empty ledger."""
    return create(backend)
