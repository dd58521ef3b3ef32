"""A Ramet and sources for tests of imports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.instance import Instance, running_instance
from ramet.machine.installation import find_installations
from tests.sources import MAJORS, Source, open_source

HERE = Path(__file__).parent
SCHEMA = (HERE / "schema.sql").read_text()
LEFT_OUT = (HERE / "left_out.sql").read_text()


@pytest.fixture(scope="module")
def ramet() -> Iterator[Instance]:
    """One running Ramet."""
    with running_instance() as made:
        yield made


@pytest.fixture(params=[min(MAJORS), max(MAJORS)])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    """A source of the oldest and of the newest version here, with an empty database."""
    with open_source(request.param) as made:
        yield made


@pytest.fixture
def plain_source() -> Iterator[Source]:
    """A source of the version that services have here."""
    with open_source(find_installations().default.major) as made:
        yield made
