"""Another size and another password for a server that serves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import log_files
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.read_only_storage import set_read_only
from ramet.backends.local.sql import connections, session_settings
from ramet.backends.local.sql.connections import value
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.size import Size
from tests.backends.local.hosts import boot, connect, new_server

SMALL, LARGER, LARGE, SHARED = Size(500, 2), Size(1000, 4), Size(2000, 8), Size()
EVERY_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


@pytest.fixture
def small(instances: Instances) -> Iterator[tuple[Server, Secret]]:
    password = new_password()
    server = new_server(instances, password, size=SMALL)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    yield server, password
    instances.remove(server.service_id, 10)


def test_a_size_that_needs_no_restart_comes_into_force_under_a_session(
    instances: Instances, small: tuple[Server, Secret]
) -> None:
    server, password = small
    set_read_only(instances.paths(server.service_id))  # its file sets some of the same settings
    with connect(server, password) as connection:
        before = value(connection, "SHOW work_mem")
        assert instances.resize(replace(server, size=LARGER))
        eventually(lambda: value(connection, "SHOW work_mem") != before)


@pytest.mark.parametrize("size", [LARGE, SHARED])
def test_a_size_that_postgresql_takes_at_its_start_only_asks_for_a_restart(
    instances: Instances, small: tuple[Server, Secret], size: Size
) -> None:
    server, password = small
    resized = replace(server, size=size)
    assert not instances.resize(resized)
    assert not instances.resize(resized)
    instances.close(resized)
    assert instances.stop(server, 10)
    messages = [str(entry["message"]) for entry in log_files.entries(instances.paths(server.service_id))]
    assert not any("without restarting" in message or "contains errors" in message for message in messages)
    instances.start(resized)
    eventually(lambda: instances.await_ready(resized, 0.5).ready)
    instances.open(resized)
    assert instances.resize(resized)
    with connect(server, password) as connection:
        assert value(connection, "SHOW max_connections") == ("200" if size is LARGE else "100")


def test_a_server_that_does_not_run_asks_for_a_restart(instances: Instances, small: tuple[Server, Secret]) -> None:
    server, _password = small
    assert instances.stop(server, 10)
    assert not instances.resize(replace(server, size=LARGER))


def test_any_printable_password_opens_the_service_and_the_old_one_no_more(
    instances: Instances, small: tuple[Server, Secret]
) -> None:
    server, old = small
    for password in map(Secret, (EVERY_PRINTABLE, "ünï\u0301codé ⚘ 密码", "' OR 1=1; --", " ")):
        instances.set_password(server, scram_verifier(password))
        with connect(server, password) as connection:
            assert value(connection, "SELECT 1") == 1
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(server, old)
        old = password


def test_passwords_that_are_set_at_once_wait_for_each_other(instances: Instances, small: tuple[Server, Secret]) -> None:
    server, _password = small
    verifiers = [scram_verifier(new_password()) for _ in range(8)]
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(lambda verifier: instances.set_password(server, verifier), verifiers))
    with connections.connect(instances.paths(server.service_id)) as connection:
        kept = value(connection, "SELECT rolpassword FROM pg_authid WHERE rolname = 'tsdbadmin'")
    assert kept in [verifier.reveal() for verifier in verifiers]


def test_a_role_locked_by_a_tenant_is_reported_as_locked(
    instances: Instances, small: tuple[Server, Secret], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, password = small
    monkeypatch.setitem(session_settings._OURS, "lock_timeout", "100ms")
    with connect(server, password) as connection, connection.transaction():
        connection.execute("ALTER ROLE tsdbadmin CONNECTION LIMIT 50")
        with pytest.raises(Unavailable, match="locked"):
            instances.set_password(server, scram_verifier(new_password()))
