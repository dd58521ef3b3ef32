"""A whole Ramet in separate processes."""

from collections.abc import Iterator

import pytest

from harness.instance import FREQUENT_SNAPSHOTS, Instance, running_instance


@pytest.fixture(scope="package")
def shared_instance() -> Iterator[Instance]:
    with running_instance(None, **FREQUENT_SNAPSHOTS) as made:
        yield made


@pytest.fixture
def instance(shared_instance: Instance) -> Iterator[Instance]:
    """A Ramet that is up. What a test makes is deleted, and then nothing may be left over."""
    yield shared_instance
    if shared_instance.process is None:
        shared_instance.up()
    for service in shared_instance.call("GET", "/services").json():
        shared_instance.call("DELETE", f"/services/{service['service_id']}")
    shared_instance.await_idle()
    assert shared_instance.leftovers() == []
