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
