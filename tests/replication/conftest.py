"""A Ramet and servers outside of it."""

from collections.abc import Iterator

import pytest

from harness.instance import Instance, running_instance


@pytest.fixture(scope="module")
def ramet() -> Iterator[Instance]:
    """One running Ramet."""
    with running_instance() as made:
        yield made
