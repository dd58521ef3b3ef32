"""A Ramet whose services have the oldest version of PostgreSQL here, and the tables of tests of upgrades."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.instance import Instance, running_instance
from ramet.machine.installation import find_installations

OLD, NEW = min(find_installations().by_major), max(find_installations().by_major)
SCHEMA = (Path(__file__).parent / "schema.sql").read_text()


@pytest.fixture(scope="module")
def ramet() -> Iterator[Instance]:
    """One running Ramet."""
    old = find_installations().of(OLD)
    with running_instance(RAMET_PG_BIN=str(old.bin)) as made:
        yield made
