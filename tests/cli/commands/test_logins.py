"""`ramet db login`: a service that is asleep is woken for it."""

import pytest

from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.cli.connection import log_in
from ramet.client import ApiError, Client, Keeping
from ramet.control.sleep import submit_sleep
from ramet.model.rights import Role
from tests.cli.terminal import Terminal
from tests.cli.world import World


@pytest.fixture
def asleep(world: World) -> Service:
    """A service that is asleep."""
    with world.client() as client:
        made = client.create_service("notes", keeping=Keeping(sleep_after_seconds=600))
        client.wait_ready(made.service_id)
        assert submit_sleep(world.runtime.plane, made.service_id)
        eventually(lambda: client.get_service(made.service_id).metadata.sleeping)
        return client.get_service(made.service_id)


def test_a_login_wakes_a_service(terminal: Terminal, world: World, asleep: Service) -> None:
    assert terminal.ramet("db", "login", asleep.service_id).code == 0
    with world.client() as client:
        assert not client.get_service(asleep.service_id).metadata.sleeping


def test_a_login_needs_no_wake_where_another_one_has_woken_the_service(world: World, asleep: Service) -> None:
    with world.client() as client:
        client.start_service(asleep.service_id)
        log_in(client, asleep)
        log_in(client, asleep)


def test_a_key_that_may_wake_nothing_is_told_to_connect(world: World, asleep: Service) -> None:
    with world.client() as admin:
        key = admin.create_key("reports", Role.VIEWER)
    with (
        Client(world.base_url, world.project.id, key.public_key, key.secret_key) as client,
        pytest.raises(ApiError, match="asleep") as refused,
    ):
        log_in(client, asleep)
    assert "Connect to it" in refused.value.details
