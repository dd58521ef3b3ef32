"""One running Ramet for all modules here, and a service with rows in it."""

from collections.abc import Iterator

import pytest

from tests.conformance.server import Ramet, running_ramet
from tests.conformance.shapes import Service


@pytest.fixture(scope="package")
def ramet() -> Iterator[Ramet]:
    """A project of a running Ramet."""
    with running_ramet() as running:
        yield running


@pytest.fixture(scope="package")
def shop(ramet: Ramet) -> Service:
    """A READY service with 1000 orders."""
    service = ramet.ready(name="shop", cpu_millis="500", memory_gbs="2", replica_count=0)
    with ramet.connect(service) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT n AS id, 'order ' || n AS title FROM generate_series(1, 1000) n"
        )
    return service
