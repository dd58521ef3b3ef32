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
    clear(shared_instance)


def clear(instance: Instance) -> None:
    """Delete all services of a Ramet, and look that nothing is left over."""
    if instance.process is None:
        instance.up()
    for service in instance.call("GET", "/services").json():
        instance.call("DELETE", f"/services/{service['service_id']}")
    instance.await_idle()
    assert instance.leftovers() == []
