"""A source or a service without room to lock all tables at once says so, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from ramet.errors import Failed
from ramet.model.service_type import ServiceType
from tests.backends.local.forks import make_backend, paths_of, run
from tests.backends.local.hosts import new_server
from tests.followers.conftest import restart
from tests.sources import MAJORS, OWNER, PASSWORD, Source, open_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_TABLES, _LEFT, _AT_ONCE = 100, 40, 100
_MAKE_TABLES = f"""
DO $$ BEGIN FOR i IN 1 .. {_TABLES} LOOP EXECUTE format('CREATE TABLE many_%s (n int PRIMARY KEY)', i); END LOOP; END $$
"""
_HBA = "local all all scram-sha-256\nhost all all all scram-sha-256\n"


@contextmanager
def few_locks_left(connection: "psycopg.Connection[tuple[object, ...]]") -> Iterator[None]:
    """Lock in a session whatever the lock table has room for, but for a few."""
    count = 0
    with suppress(psycopg.errors.OutOfMemory):
        while True:
            locks = "SELECT pg_advisory_lock(n) FROM generate_series(%s::int, %s::int) n"
            connection.execute(locks, (count, count + _AT_ONCE - 1))
            count += _AT_ONCE
    freed = "SELECT pg_advisory_unlock(n) FROM generate_series(%s::int, %s::int) n"
    connection.execute(freed, (count - _LEFT, count - 1))
    yield
    connection.execute("SELECT pg_advisory_unlock_all()")


@pytest.fixture(name="source")
def _source() -> Iterator[Source]:
    with open_source(max(MAJORS)) as made:
        (made.directory / "data" / "pg_hba.conf").write_text(_HBA)
        restart(made, max_locks_per_transaction="16")
        made.run(_MAKE_TABLES)
        yield made


@pytest.fixture(name="backend")
def _backend() -> Iterator[LocalBackend]:
    with make_backend("copy") as made:
        yield made


def test_it_is_said_where_the_locks_do_not_suffice(backend: LocalBackend, source: Source) -> None:
    server = new_server(backend.instances, pg_major=max(MAJORS))
    address = SourceAddress("localhost", source.own_port, "shop", OWNER, "disable")
    facts, _ = backend.sources.examine(address, PASSWORD, ServiceType.POSTGRES)
    sealed = backend.sources.seal(PASSWORD)
    backend.servers.initialize(server)
    with source.connect("postgres") as session:
        with few_locks_left(session), pytest.raises(Failed, match="cannot lock all its tables") as failed:
            backend.subscriptions.publish(server, address, sealed)
        assert "Raise max_locks_per_transaction in the source" in failed.value.details
        backend.subscriptions.publish(server, address, sealed)
        backend.sources.keep(server, address, sealed)
        with few_locks_left(session), pytest.raises(Failed, match="pg_dump cannot lock all tables"):
            eventually(lambda: backend.sources.fetch(server, address, facts, 0.5, schema_only=True).facts is not None)
    eventually(lambda: backend.sources.fetch(server, address, facts, 0.5, schema_only=True).facts is not None)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    eventually(lambda: backend.sources.load(server, facts, owners=False, timeout_seconds=0.5).facts is not None)
    with connections.connect(paths_of(backend, server)) as session:
        with few_locks_left(session), pytest.raises(Failed, match="cannot lock all tables of") as failed:
            backend.subscriptions.subscribe(server)
        assert "larger size" in failed.value.details
    backend.subscriptions.subscribe(server)
    backend.subscriptions.discard(server.service_id)
    backend.servers.destroy(server.service_id)
