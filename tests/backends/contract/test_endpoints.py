"""What every backend does with endpoints that outlive their servers."""

from dataclasses import replace

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Source
from tests.backends.contract.grounds import Ground


def test_a_server_falls_asleep_is_copied_without_waking_and_serves_again(ground: Ground) -> None:
    endpoints = ground.backend.endpoints
    endpoints.check()
    server = replace(ground.new_server(), server_port=free_port())
    ground.backend.servers.initialize(server)
    ground.boot(server)
    ground.backend.servers.secure(server, is_new=True, neutralize=False)
    ground.backend.servers.open(server)
    ground.client.commit(server, "kept")
    assert list(endpoints.list_open()) == [server.service_id]
    eventually(lambda: endpoints.fall_asleep(server))
    assert endpoints.fall_asleep(server)
    endpoints.keep([], [server])
    assert not ground.backend.servers.inspect(server).serving
    ground.snapshot(server, paused=True)
    assert ground.client.values(ground.fork(Source(server, paused=True))) == ["kept"]
    assert not ground.backend.servers.inspect(server).serving
    assert not endpoints.waiting(0.0)
    ground.boot(server, clients=True)
    for _ in range(2):
        ground.backend.servers.open(server)
    assert ground.client.values(server) == ["kept"]
    for _ in range(2):
        ground.backend.servers.stop(server)
    assert ground.backend.host.port_is_free(server.port)
    assert not endpoints.list_open()
    endpoints.close(server.service_id)
