"""How much of the host's storage a tenant can take by what is no data: temporary files, and the server's log."""

import os
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import log_files
from ramet.backends.local.server import read_only_storage
from ramet.backends.local.server.instances import Instances
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server

FLOOD = "DO $$ BEGIN FOR i IN 1..120 LOOP RAISE LOG '%', repeat('x', 1000000); END LOOP; END $$"
READ_ONLY = {"options": "-c tsdb_admin.read_only_connection=true"}


@pytest.fixture(scope="module")
def password() -> Secret:
    return new_password()


@pytest.fixture(scope="module")
def server(instances: Instances, password: Secret) -> Iterator[Server]:
    made = new_server(instances, password)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    instances.open(made)
    yield made
    instances.remove(made.service_id, 10)


def test_a_sort_beyond_the_limit_fails_and_its_tenant_cannot_raise_it(server: Server, password: Secret) -> None:
    with connect(server, password) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SET temp_file_limit = -1")
        connection.execute("SET work_mem = '64kB'")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="temp_file_limit"):
            connection.execute("SELECT repeat('x', 100000) || n FROM generate_series(1, 20000) n ORDER BY 1 LIMIT 1")
        for subject in ("ROLE tsdbadmin", "DATABASE tsdb"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"ALTER {subject} SET temp_file_limit = -1".encode())


def test_a_flooded_log_is_bounded_as_it_is_written(instances: Instances, server: Server, password: Secret) -> None:
    paths, begun = instances.paths(server.service_id), time.monotonic()
    with connect(server, password, **READ_ONLY) as connection:
        connection.execute(FLOOD)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    minutes = 2 + (time.monotonic() - begun) // 60
    sizes = [file.stat().st_size for file in paths.log.iterdir()]
    assert log_files.FILE_BYTES / 2 < max(sizes) <= log_files.FILE_BYTES
    assert sum(sizes) <= (minutes + 1) * log_files.FILE_BYTES


def test_a_session_with_large_temporary_files_is_ended_while_room_is_short(
    instances: Instances, server: Server, password: Secret
) -> None:
    paths, ended = instances.paths(server.service_id), threading.Event()

    def held() -> bool:
        read_only_storage.set_read_only(paths)
        return ended.is_set()

    with connect(server, password) as connection:
        connection.execute("SET work_mem = '64kB'")
        connection.execute("DECLARE large CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 1000000) n ORDER BY -n")
        waiting = threading.Thread(target=lambda: _sleep(connection, ended), daemon=True)
        waiting.start()
        try:
            eventually(held)
        finally:
            read_only_storage.set_writable(paths)


def test_a_session_that_drops_tables_to_make_room_is_not_ended_when_the_clock_has_stepped_back(
    instances: Instances, server: Server, password: Secret
) -> None:
    paths = instances.paths(server.service_id)
    read_only_storage.set_read_only(paths)
    os.utime(paths.read_only_file, (time.time() + 3600,) * 2)
    try:
        with connect(server, password) as connection:
            connection.execute("SET default_transaction_read_only = off")
            with connection.transaction():
                connection.execute("CREATE TABLE dropped ()")
                read_only_storage.set_read_only(paths)
                connection.execute("DROP TABLE dropped")
    finally:
        read_only_storage.set_writable(paths)


def _sleep(connection: psycopg.Connection[tuple[object, ...]], ended: threading.Event) -> None:
    try:
        connection.execute("SELECT pg_sleep(600)")
    except psycopg.errors.AdminShutdown:
        ended.set()
