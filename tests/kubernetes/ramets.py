"""`ramet up` with services in the cluster, and a client of one of them that notes what was committed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg

from harness.instance import Instance, connect, open_instance
from harness.kubernetes.contents import kubectl
from harness.kubernetes.objects import namespace, sql
from harness.kubernetes.settings import archive_settings, settings_of, some_ports
from harness.waiting import eventually
from ramet.api.schemas.services import Service

_PAUSE_SECONDS = 0.03


@contextmanager
def running_in_cluster(*, archive: bool = False, **environment: str) -> Iterator[tuple[Instance, str]]:
    """Run `ramet up` with a namespace of its own, whose name is given, too; with `archive` below a prefix of it.

    `environment` has further variables.
    """
    with namespace() as name, open_instance() as ramet:
        ramet.services = some_ports()
        ramet.environment |= {**settings_of(name), **(archive_settings(name) if archive else {}), **environment}
        ramet.up()
        yield ramet, name


def login(service: Service, password: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect as a client does: to the endpoint, over TLS."""
    assert service.endpoint is not None
    return connect(service.endpoint.port, password, host=service.endpoint.host, sslmode="require")


def rows(service: Service, password: str) -> list[int]:
    """Return the numbers in the ledger of a service."""
    with login(service, password) as connection:
        return [int(n) for (n,) in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]


def objects_of(service_id: str, at: str) -> list[str]:
    """Return the objects that a service has in a namespace."""
    kinds = (
        "clusters.postgresql.cnpg.io,deployments,configmaps,networkpolicies,pvc,volumesnapshots,services,secrets,pods"
    )
    found = kubectl("get", kinds, f"--namespace={at}", "--output=name").splitlines()
    return [name for name in found if service_id in name]


def close_segment(service_id: str, at: str) -> None:
    """End the WAL segment of a service, which is archived then; by itself it ends after a minute."""
    sql(f"ramet-{service_id}-1", at, "SELECT pg_switch_wal()", "postgres")


@dataclass
class Ledger:
    """A client that commits one number after the other, and notes when each was acknowledged."""

    service: Service
    password: str
    acknowledged: dict[int, datetime] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Ledger":
        with login(self.service, self.password) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS ledger (n bigint PRIMARY KEY)")
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        self.await_rows(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def await_rows(self, count: int) -> None:
        """Wait until so many more rows were acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, "the ledger's rows")

    def before(self, time: datetime) -> int:
        """Return the last number that was acknowledged before a time."""
        return max((n for n, at in dict(self.acknowledged).items() if at < time), default=0)

    def _write(self) -> None:
        with login(self.service, self.password) as connection:
            last = connection.execute("SELECT coalesce(max(n), 0) FROM ledger").fetchall()[0][0]
            while not self._ended.wait(_PAUSE_SECONDS):
                last += 1
                connection.execute("INSERT INTO ledger VALUES (%s)", (last,))
                self.acknowledged[last] = datetime.now(UTC)
