"""Statistics are collected of all that can be read, and a server that ends is no result."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.server.analyze import collect
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.errors import Unavailable
from tests.backends.local.hosts import boot, new_server


@pytest.fixture(name="paths")
def _paths(instances: Instances) -> Iterator[ServicePaths]:
    server = new_server(instances)
    boot(instances, server)
    yield instances.paths(server.service_id)
    instances.remove(server.service_id, 10)


def run(paths: ServicePaths, *statements: str, database: str = "postgres") -> None:
    with connections.connect(paths, database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


class Ending(Allowance):
    """Kills the server before a table is analyzed."""

    def plain(self, paths: ServicePaths, connection: Connection) -> AbstractContextManager[None]:
        """Allow nothing any more."""
        assert postgres.kill(paths, 10)
        return super().plain(paths, connection)


def test_a_server_that_ends_has_no_result(paths: ServicePaths) -> None:
    with pytest.raises(Unavailable):
        collect(paths, Ending())


def test_a_database_that_cannot_be_entered_hinders_no_other_one(paths: ServicePaths) -> None:
    run(paths, "CREATE DATABASE alpha", "CREATE DATABASE zeta")
    run(paths, "CREATE TABLE public.there ()", database="zeta")
    run(paths, "BEGIN", "ALTER DATABASE alpha RENAME TO x", "PREPARE TRANSACTION 'p'", database="zeta")
    ended = collect(paths, Allowance())
    assert ended.startswith("collected, except for alpha.*")
    assert "zeta" not in ended


def test_a_server_that_does_not_run_has_no_result(instances: Instances) -> None:
    with pytest.raises(Unavailable):
        collect(instances.paths("nowhere"), Allowance())
