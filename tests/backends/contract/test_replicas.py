"""What every backend does with read replicas."""

from harness.waiting import eventually
from tests.backends.contract.grounds import Ground


def test_a_replica_shows_the_rows_of_its_primary_old_and_new(ground: Ground) -> None:
    primary = ground.create("one")
    replica = ground.new_server(primary)
    for _ in range(2):
        assert ground.backend.replicas.create(replica)
    ground.boot(replica, clients=True)
    ground.backend.servers.open(replica)
    eventually(lambda: ground.backend.servers.inspect(replica).follows)
    ground.client.commit(primary, "two")
    eventually(lambda: ground.client.values(replica) == ["one", "two"])


def test_no_replica_is_made_of_a_stopped_primary(ground: Ground) -> None:
    primary = ground.create()
    replica = ground.new_server(primary)
    ground.backend.servers.stop(primary)
    assert not ground.backend.replicas.create(replica)


def test_a_balancer_ends_with_the_replica_that_carries_it(ground: Ground) -> None:
    primary, replicas = ground.create("one"), ground.backend.replicas
    nodes = [ground.new_server(primary) for _ in range(2)]
    for node in nodes:
        assert replicas.create(node)
        ground.boot(node, clients=True)
        ground.backend.servers.open(node)
    endpoint = ground.new_server().port
    replicas.start_balancer(nodes, endpoint)
    assert replicas.balancer_serves(nodes[0].service_id)
    ground.backend.servers.stop(nodes[0])
    assert not replicas.balancer_serves(nodes[0].service_id)
