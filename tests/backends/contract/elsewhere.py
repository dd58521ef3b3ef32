"""A database outside of a backend, which its services are copied from or follow."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Server
from ramet.backends.memory.backend import MemoryBackend
from ramet.model.passwords import Secret
from ramet.model.upstream import FollowMethod, Upstream
from tests.sources import OWNER, PASSWORD, Source, open_source

_TABLE = "CREATE TABLE ledger (n serial PRIMARY KEY, value text)"
_VALUES = "SELECT value FROM ledger ORDER BY n"
_LEFT = "SELECT slot_name::text FROM pg_replication_slots UNION ALL SELECT pubname::text FROM pg_publication"
_HBA = "local all all scram-sha-256\nhost all,replication all all scram-sha-256\n"


class Elsewhere(Protocol):
    """The database, which the role of `address` may read, publish and stream from."""

    address: SourceAddress
    password: Secret

    def commit(self, value: str) -> None:
        """Commit a row."""

    def values(self) -> list[str]:
        """Return the values of all rows in order."""

    def values_in(self, standby: Server) -> list[str]:
        """Return the values of all rows that a standby of it shows. Raises where it takes no clients."""

    def made_there(self) -> list[str]:
        """Return the names of what services have made in it."""

    def clear(self) -> None:
        """Remove all rows."""


class InMemory:
    """The source of the backend in memory."""

    address = SourceAddress("db.example", 5432, "shop", "app", "disable")
    password = Secret("source")

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def commit(self, value: str) -> None:
        """Commit a row: imports and standbys have lists of their own."""
        for rows in (self._backend.sources.rows, self._backend.followers.rows):
            rows.append(value)

    def values(self) -> list[str]:
        """Return the values of all rows."""
        return list(self._backend.sources.rows)

    def values_in(self, standby: Server) -> list[str]:
        """Return the rows of a standby, after it has received what there is."""
        self._backend.followers.observe(standby)
        return self._backend.values(standby.service_id)

    def made_there(self) -> list[str]:
        """Return slots, and the ids of services that are published to."""
        return [*self._backend.followers.slots, *self._backend.subscriptions.published]

    def clear(self) -> None:
        """Remove all rows."""
        self._backend.sources.rows.clear()
        self._backend.followers.rows.clear()


class RealServer:
    """A PostgreSQL server."""

    password = PASSWORD

    def __init__(self, source: Source) -> None:
        self.address = SourceAddress("localhost", source.own_port, "shop", OWNER, "disable")
        self._source = source
        self._source.run("CREATE ROLE reader LOGIN PASSWORD 'reader' IN ROLE pg_read_all_data")
        self._source.run(_TABLE)

    def commit(self, value: str) -> None:
        """Commit a row."""
        with self._source.connect() as connection:
            connection.execute("INSERT INTO ledger (value) VALUES (%s)", (value,))

    def values(self) -> list[str]:
        """Return the values of all rows."""
        with self._source.connect() as connection:
            return _column(connection, _VALUES)

    def values_in(self, standby: Server) -> list[str]:
        """Ask a standby, as a role of the source."""
        with psycopg.connect(
            host="localhost", port=standby.port, user="reader", password="reader", dbname="shop", connect_timeout=30
        ) as connection:
            return _column(connection, _VALUES)

    def made_there(self) -> list[str]:
        """Return slots and publications."""
        with self._source.connect() as connection:
            return _column(connection, _LEFT)

    def clear(self) -> None:
        """Remove all rows."""
        self._source.run("TRUNCATE ledger")


def _column(connection: "psycopg.Connection[Any]", query: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(query.encode()).fetchall()]


@contextmanager
def real_server(major: int) -> Iterator[Elsewhere]:
    """Run a server of a version, which lets in clients without TLS: not every PostgreSQL here has it."""
    with open_source(major) as source:
        (source.directory / "data" / "pg_hba.conf").write_text(_HBA)
        source.run("SELECT pg_reload_conf()")
        yield RealServer(source)


def following(server: Server, elsewhere: Elsewhere, facts: Any, **options: Any) -> Server:
    """Return a server as a standby of a source with these facts."""
    address = elsewhere.address
    upstream = Upstream(
        method=FollowMethod.PHYSICAL,
        host=address.host,
        port=address.port,
        database=address.database,
        user=address.user,
        sslmode=address.sslmode,
        system_identifier=facts.system_identifier,
        bootstrap_role=facts.bootstrap_role,
        **options,
    )
    return dataclasses.replace(server, pg_major=facts.major, upstream=upstream)
