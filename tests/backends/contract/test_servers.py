"""What every backend does with servers."""

from datetime import UTC, datetime

import pytest

from ramet.errors import Failed, Unavailable
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.contract.grounds import Ground


def test_a_new_server_serves_its_clients_when_it_is_open(ground: Ground) -> None:
    server = ground.create("one", "two")
    assert ground.client.values(server) == ["one", "two"]
    seen = ground.backend.servers.inspect(server)
    assert (seen.serving, seen.reason) == (True, "")


def test_each_step_to_a_new_server_may_run_twice(ground: Ground) -> None:
    server, servers = ground.new_server(), ground.backend.servers
    for _ in range(2):
        servers.initialize(server)
    for _ in range(2):
        ground.boot(server)
    for _ in range(2):
        servers.secure(server, is_new=True, neutralize=False)
    for _ in range(2):
        servers.open(server)
    ground.client.commit(server, "one")
    assert ground.client.values(server) == ["one"]


def test_a_server_is_closed_to_clients_until_it_is_opened(ground: Ground) -> None:
    server = ground.create("one")
    ground.backend.servers.stop(server)
    ground.boot(server)
    with pytest.raises(Exception, match=r".+"):
        ground.client.values(server)
    ground.backend.servers.open(server)
    assert ground.client.values(server) == ["one"]


def test_a_stopped_server_keeps_its_rows_and_serves_again(ground: Ground) -> None:
    server, servers = ground.create("one"), ground.backend.servers
    servers.stop(server)
    servers.stop(server)
    seen = servers.inspect(server)
    assert not seen.serving
    assert seen.reason
    assert ground.backend.host.measure(server) is None
    ground.boot(server, clients=True)
    assert ground.client.values(server) == ["one"]


def test_a_server_without_a_volume_cannot_be_started(ground: Ground) -> None:
    server = ground.create()
    ground.backend.servers.destroy(server.service_id)
    assert not ground.backend.servers.inspect(server).serving
    with pytest.raises(Failed) as failed:
        ground.backend.servers.start(server)
    assert failed.value.code == "VOLUME_LOST"


def test_a_server_may_be_destroyed_at_any_time(ground: Ground) -> None:
    servers, unmade, made = ground.backend.servers, ground.new_server(), ground.new_server()
    servers.destroy(unmade.service_id)
    servers.initialize(made)
    for _ in range(2):
        servers.destroy(made.service_id)
    assert ground.backend.restore.snapshot_ids(made.service_id) is None


def test_a_password_is_known_after_it_was_set_and_not_before(ground: Ground) -> None:
    server, servers, password = ground.create(), ground.backend.servers, new_password()
    assert servers.has_password(server, ground.passwords[server.service_id])
    assert servers.has_password(server, password) is False
    servers.set_password(server, scram_verifier(password))
    assert servers.has_password(server, password)


def test_no_password_is_set_and_none_known_or_excluded_while_the_server_is_stopped(ground: Ground) -> None:
    server, servers, password = ground.create(), ground.backend.servers, new_password()
    servers.stop(server)
    for one in (password, ground.passwords[server.service_id]):
        assert servers.has_password(server, one) is None
    with pytest.raises(Unavailable):
        servers.set_password(server, scram_verifier(password))


def test_a_read_only_server_takes_no_writes_until_that_is_lifted(ground: Ground) -> None:
    server, servers = ground.create("one"), ground.backend.servers
    servers.set_read_only(server, read_only=True)
    with pytest.raises(Exception, match=r".+"):
        ground.client.commit(server, "two")
    assert ground.client.values(server) == ["one"]
    servers.set_read_only(server, read_only=False)
    ground.client.commit(server, "three")
    assert ground.client.values(server) == ["one", "three"]


def test_a_stopped_server_cannot_be_made_read_only(ground: Ground) -> None:
    server, servers = ground.create(), ground.backend.servers
    servers.stop(server)
    with pytest.raises(Unavailable):
        servers.set_read_only(server, read_only=True)


def test_a_stopped_server_takes_its_size_from_its_next_start(ground: Ground) -> None:
    server = ground.create()
    ground.backend.servers.stop(server)
    assert not ground.backend.servers.resize(server)


def test_a_server_of_this_release_needs_no_refresh(ground: Ground) -> None:
    assert ground.backend.servers.refresh(ground.create())


def test_up_to_date_extensions_are_not_updated(ground: Ground) -> None:
    server, servers = ground.create(), ground.backend.servers
    assert servers.update_extensions(server, None) == []
    assert servers.update_extensions(server, "plpgsql") == []


def test_an_extension_that_no_database_has_is_not_updated(ground: Ground) -> None:
    server = ground.create()
    for name in ("no_such_extension", "", "\0"):
        assert ground.backend.servers.update_extensions(server, name) is None


def test_a_server_is_maintained_whether_it_runs_or_not(ground: Ground) -> None:
    server, servers = ground.create("one"), ground.backend.servers
    for _ in range(2):
        assert servers.maintain(server, 0.5, datetime.now(UTC)).archive_delay is None
    servers.stop(server)
    assert servers.maintain(server, 0.5, datetime.now(UTC)).archive_delay is None
