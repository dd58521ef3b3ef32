"""Each backend in turn, empty."""

from collections.abc import Iterator

import pytest

from tests.backends.contract.elsewhere import Elsewhere
from tests.backends.contract.grounds import GROUNDS, Ground
from tests.lanes import parameters


@pytest.fixture(scope="session", params=parameters(GROUNDS))
def ground_of_backend(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A backend for the whole session."""
    with GROUNDS[request.param]() as made:
        yield made


@pytest.fixture
def ground(ground_of_backend: Ground) -> Iterator[Ground]:
    """A backend; what a test makes in it is destroyed."""
    yield ground_of_backend
    ground_of_backend.clear()


@pytest.fixture(params=parameters(GROUNDS))
def own_ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A backend for one test, which may stop all of it."""
    with GROUNDS[request.param]() as made:
        yield made


@pytest.fixture(scope="session")
def elsewhere_of_backend(ground_of_backend: Ground) -> Iterator[Elsewhere]:
    """A database outside of a backend, for the whole session."""
    with ground_of_backend.open_elsewhere() as made:
        yield made


@pytest.fixture
def elsewhere(ground: Ground, elsewhere_of_backend: Elsewhere) -> Iterator[Elsewhere]:
    """A database outside of a backend, without rows; services leave nothing in it."""
    yield elsewhere_of_backend
    for service_id in ground.passwords:
        ground.backend.subscriptions.discard(service_id)
        ground.backend.followers.discard(service_id)
    assert elsewhere_of_backend.made_there() == []
    elsewhere_of_backend.clear()
