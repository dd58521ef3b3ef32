"""A whole Ramet over real servers for the proofs at small size."""

from collections.abc import Iterator

import pytest

from prove.ground import Ground, Running, open_ground
from tests.proofs.ledgers import make_ledger


@pytest.fixture(scope="package")
def ground() -> Iterator[Ground]:
    """The control plane and real servers, in one process; nothing is left of them."""
    with open_ground(None, snapshot_seconds=3600.0) as made:
        yield made


@pytest.fixture
def parent(ground: Ground) -> Iterator[Running]:
    """A READY service with an empty ledger."""
    running = ground.create("shop")
    make_ledger(running)
    yield running
    ground.delete(running)
