"""What every backend does with connection poolers."""

from tests.backends.contract.grounds import Ground


def test_a_pooler_runs_from_its_start_to_its_stop(ground: Ground) -> None:
    server, port, poolers = ground.create(), ground.new_server().port, ground.backend.poolers
    poolers.check()
    poolers.check_database(server)
    for _ in range(2):
        poolers.start([server], port)
    assert poolers.serves(server.service_id)
    for _ in range(2):
        poolers.stop(server.service_id)
    assert not poolers.serves(server.service_id)


def test_a_server_with_a_pooler_port_is_opened_and_stopped_with_its_pooler(ground: Ground) -> None:
    server = ground.create(has_pooler=True)
    assert ground.backend.poolers.serves(server.service_id)
    ground.backend.servers.stop(server)
    assert not ground.backend.poolers.serves(server.service_id)
