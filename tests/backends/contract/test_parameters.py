"""What every backend does with the settings that a service has of its own."""

from dataclasses import replace

import pytest

from ramet.errors import Unavailable
from tests.backends.contract.grounds import Ground

OWN = (("max_connections", "60"), ("work_mem", "7MB"))


def test_settings_come_into_force_while_the_server_serves_or_wait_for_its_start(ground: Ground) -> None:
    server, parameters = ground.create("one"), ground.backend.parameters
    changed = replace(server, parameters=OWN)
    parameters.check(changed)
    for _ in range(2):
        assert list(parameters.apply(changed)) == ["max_connections"]
    found = parameters.in_force(changed, ["max_connections", "work_mem"])
    assert (found["work_mem"].value, found["work_mem"].is_pending) == ("7MB", False)
    assert (found["max_connections"].value != "60", found["max_connections"].is_pending) == (True, True)
    ground.backend.servers.stop(server)
    with pytest.raises(Unavailable):
        parameters.apply(changed)
    with pytest.raises(Unavailable):
        parameters.in_force(changed, ["work_mem"])
    ground.boot(changed, clients=True)
    ground.backend.servers.open(changed)
    assert list(parameters.apply(changed)) == []
    found = parameters.in_force(changed, ["max_connections", "work_mem"])
    assert (found["max_connections"].value, found["max_connections"].is_pending) == ("60", False)
    assert ground.client.values(changed) == ["one"]


def test_settings_of_a_server_that_is_read_only_come_into_force(ground: Ground) -> None:
    server, parameters = ground.create("one"), ground.backend.parameters
    changed = replace(server, parameters=OWN)
    ground.backend.servers.set_read_only(server, read_only=True)
    assert list(parameters.apply(changed)) == ["max_connections"]
    assert parameters.in_force(changed, ["work_mem"])["work_mem"].value == "7MB"
    ground.backend.servers.set_read_only(server, read_only=False)
    assert list(parameters.apply(changed)) == ["max_connections"]
