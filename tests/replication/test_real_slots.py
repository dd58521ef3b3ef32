"""What a tenant may do with wal_level logical on real servers, what its forks get, and what a slot can cost."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.server import read_only_storage
from ramet.backends.local.sql import connections
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.wal_level import WalLevel
from tests.backends.local.forks import make_backend, paths_of, recover, run
from tests.backends.local.hosts import connect, new_server
from tests.sources import MAJORS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_MIB = 1024**2
_SEGMENT = "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 17)"
PASSWORD = new_password()


@pytest.fixture(scope="module")
def backend() -> Iterator[LocalBackend]:
    """A backend that copies plainly."""
    with make_backend("copy") as made:
        yield made


@pytest.fixture(params=MAJORS)
def logical(request: pytest.FixtureRequest, backend: LocalBackend) -> Iterator[Server]:
    """An open service with wal_level logical, of each version."""
    server = new_server(backend.instances, PASSWORD, pg_major=request.param, wal_level=WalLevel.LOGICAL)
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    yield server
    backend.servers.destroy(server.service_id)


def session(server: Server, password: Secret = PASSWORD, **parameters: str) -> "psycopg.Connection[tuple[object, ...]]":
    return connect(server, password, sslmode="prefer", **parameters)


def restarted(backend: LocalBackend, server: Server) -> None:
    backend.servers.stop(server)
    backend.servers.start(server, clients=True)
    eventually(lambda: backend.servers.await_ready(server, 0.5).ready)
    backend.replication.permit(server)
    backend.servers.open(server)


def make_slot(client: "psycopg.Connection[tuple[object, ...]]", name: str) -> None:
    client.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))


def test_the_admin_publishes_and_replicates_logically_only(backend: LocalBackend, logical: Server) -> None:
    with session(logical) as client:
        assert client.execute("SHOW wal_level").fetchone() == ("logical",)
        client.execute("CREATE TABLE t (n int PRIMARY KEY)")
        client.execute("CREATE PUBLICATION p FOR TABLE t")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="superuser"):
            client.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        make_slot(client, "s")
    session(logical, replication="database").close()
    with pytest.raises(psycopg.OperationalError, match="rejects replication"):
        session(logical, replication="true")
    (slot,) = backend.replication.slots(logical).slots
    assert (slot.name, slot.database, slot.plugin, slot.active) == ("s", "tsdb", "pgoutput", False)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), session(logical) as client:
        client.execute("SELECT subconninfo FROM pg_subscription")


def test_back_to_replica_nobody_replicates_any_more(backend: LocalBackend, logical: Server) -> None:
    with session(logical) as client:
        client.execute("CREATE ROLE reader LOGIN")
    with connections.connect(paths_of(backend, logical)) as platform:
        platform.execute("ALTER ROLE reader REPLICATION")
    server = replace(logical, wal_level=WalLevel.REPLICA)
    restarted(backend, server)
    with session(server) as client:
        assert client.execute("SHOW wal_level").fetchone() == ("replica",)
        replicating = client.execute("SELECT rolname FROM pg_roles WHERE rolreplication").fetchall()
        assert replicating == [("ramet",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("SELECT pg_create_physical_replication_slot('hoard', true)")


def test_what_earlier_releases_left_goes_and_a_tenants_attribute_stays(backend: LocalBackend, logical: Server) -> None:
    with session(logical) as client:
        client.execute("CREATE ROLE reader LOGIN")
    with connections.connect(paths_of(backend, logical)) as platform:
        platform.execute("ALTER ROLE reader REPLICATION")
        platform.execute("CREATE ROLE ramet_replica LOGIN REPLICATION")
    assert backend.servers.refresh(logical)
    with session(logical) as client:
        found = client.execute("SELECT rolname FROM pg_roles WHERE rolreplication ORDER BY 1").fetchall()
    assert found == [("ramet",), ("reader",), ("tsdbadmin",)]


def test_slots_of_a_stopped_server_are_known_by_their_names(backend: LocalBackend, logical: Server) -> None:
    with session(logical) as client:
        make_slot(client, "kept")
    backend.servers.stop(logical)
    assert [slot.name for slot in backend.replication.slots(logical).slots] == ["kept"]


@pytest.mark.parametrize("level", list(WalLevel))
def test_a_fork_has_no_slots_and_starts_with_either_level(
    backend: LocalBackend, logical: Server, level: WalLevel
) -> None:
    with session(logical) as client:
        client.execute("CREATE TABLE t AS SELECT 1 AS n")
        make_slot(client, "of_the_parent")
    fork, other = new_server(backend.instances), new_password()
    fork = replace(fork, pg_major=logical.pg_major, wal_level=level, verifier=scram_verifier(other))
    captured = backend.restore.capture(fork, Source(logical))
    assert captured is not None
    recover(backend, fork, captured)
    run(backend, fork, first=True)
    backend.servers.secure(fork, is_new=False, neutralize=True)
    backend.servers.open(fork)
    try:
        assert backend.replication.slots(fork).slots == []
        with session(fork, other) as client:
            assert client.execute("SHOW wal_level").fetchone() == (level.value,)
            assert client.execute("SELECT n FROM t").fetchone() == (1,)
            own = client.execute("SELECT rolreplication FROM pg_roles WHERE rolname = 'tsdbadmin'").fetchone()
            assert own == (level is WalLevel.LOGICAL,)
    finally:
        backend.servers.destroy(fork.service_id)
    assert [slot.name for slot in backend.replication.slots(logical).slots] == ["of_the_parent"]


@pytest.mark.parametrize("kind", ["logical", "physical"])
def test_a_slot_that_nobody_reads_is_lost_at_the_limit(backend: LocalBackend, logical: Server, kind: str) -> None:
    with session(logical) as client:
        if kind == "logical":
            make_slot(client, "unread")
        else:
            client.execute("SELECT pg_create_physical_replication_slot('unread', true)")
        client.execute("CREATE TABLE filler (text text)")
    read_only_storage.set_read_only(paths_of(backend, logical))  # the limit while the storage is nearly full
    limit = 64 * _MIB
    eventually(lambda: backend.replication.slots(logical).limit_bytes == limit)
    before = backend.replication.slots(logical).slots[0]
    assert before.wal_status in ("reserved", "extended")
    with connections.connect(paths_of(backend, logical)) as platform:
        platform.execute("SET default_transaction_read_only = off")
        while (slot := backend.replication.slots(logical).slots[0]).wal_status != "lost":
            assert (slot.retained_bytes or 0) < 3 * limit
            platform.execute(_SEGMENT)
            platform.execute("SELECT pg_switch_wal()")
            platform.execute("CHECKPOINT")
    assert slot.retained_bytes is None or slot.retained_bytes == 0
    wal = sum(path.stat().st_size for path in (paths_of(backend, logical).data / "pg_wal").iterdir() if path.is_file())
    assert wal < 3 * limit
