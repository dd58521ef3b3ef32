"""Each backend in turn, empty."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends.contract.elsewhere import Elsewhere
from tests.backends.contract.grounds import GROUNDS, REFUSED, SHOWN_ELSEWHERE, Ground
from tests.lanes import parameters


def _grounds() -> list[Any]:
    """Return the names of the grounds; those of a cluster are for script/kubernetes test."""
    in_cluster = pytest.param("kubernetes", marks=[pytest.mark.kubernetes, pytest.mark.slow])
    return [in_cluster if one.values == ("kubernetes",) else one for one in parameters(GROUNDS)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop what a backend is declared to refuse: `test_refused.py` tries that instead; and what others show."""
    items[:] = [item for item in items if not _is_refused(item) and not _is_shown_elsewhere(item)]


def _is_refused(item: pytest.Item) -> bool:
    names = {item.path.stem, item.name.partition("[")[0]}
    return any(names & refused.keys() for name, refused in REFUSED.items() if name in _grounds_of(item))


def _is_shown_elsewhere(item: pytest.Item) -> bool:
    if os.environ.get("RAMET_TEST_KUBERNETES") == "all":
        return False
    return "kubernetes" in _grounds_of(item) and item.name.partition("[")[0] in SHOWN_ELSEWHERE


def _grounds_of(item: pytest.Item) -> set[object]:
    found = getattr(item, "callspec", None)
    return set(found.params.values()) if found is not None and item.path.parent.name == "contract" else set()


@pytest.fixture(scope="session", params=_grounds())
def ground_of_backend(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A backend for the whole session."""
    with GROUNDS[request.param]() as made:
        yield made


@pytest.fixture
def ground(ground_of_backend: Ground) -> Iterator[Ground]:
    """A backend; what a test makes in it is destroyed."""
    yield ground_of_backend
    ground_of_backend.clear()


@pytest.fixture(params=_grounds())
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
