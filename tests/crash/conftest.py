"""A whole Ramet in processes of its own."""

from collections.abc import Iterator

import pytest

from prove.site import Site, open_site


@pytest.fixture(scope="package")
def shared_site() -> Iterator[Site]:
    with open_site(None) as made:
        yield made


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """A Ramet that is up. What a test makes is deleted, and then nothing may be left over."""
    yield shared_site
    if shared_site.process is None:
        shared_site.up()
    for service in shared_site.call("GET", "/services").json():
        shared_site.call("DELETE", f"/services/{service['service_id']}")
    shared_site.await_idle(60)
    assert shared_site.leftovers() == []
