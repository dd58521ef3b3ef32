"""What every backend says of the place where its servers run."""

from ramet.model.logs import LogQuery
from ramet.model.service_type import ServiceType
from tests.backends.contract.grounds import Ground


def test_a_host_has_capacity_a_version_and_a_storage_driver(ground: Ground) -> None:
    host = ground.backend.host
    major = host.default_pg_major(ServiceType.POSTGRES)
    assert major >= 13
    assert (host.size().cpu_millis or 0) >= 1000
    assert host.has_tls(major)
    assert host.volume_type()
    host.check_service_type(ServiceType.POSTGRES, major)
    description = host.describe()
    assert description
    assert all(title and sentence for title, sentence in description)


def test_a_port_that_nothing_listens_on_is_free(ground: Ground) -> None:
    assert ground.backend.host.port_is_free(ground.new_server().port)


def test_there_is_room_for_a_service_without_pressure(ground: Ground) -> None:
    host = ground.backend.host
    host.check_room()
    assert host.storage_pressure(None, lasting=False) is None
    assert host.storage_pressure(ground.create(), lasting=False) is None


def test_a_server_is_measured_and_its_log_is_read(ground: Ground) -> None:
    server, host = ground.create("one"), ground.backend.host
    measured = host.measure(server)
    assert measured is not None
    assert measured["ramet_storage_bytes"] > 0
    assert host.read_log(server, LogQuery(limit=1)).entries[1:] == []
    assert host.disk_usage(server.service_id) != 0  # None where it is not known
    host.discard_free_blocks()


def test_all_servers_are_stopped_at_once(own_ground: Ground) -> None:
    servers = [own_ground.create() for _ in range(2)]
    assert all(own_ground.backend.servers.inspect(server).serving for server in servers)
    own_ground.backend.host.stop_all()
    assert not any(own_ground.backend.servers.inspect(server).serving for server in servers)
