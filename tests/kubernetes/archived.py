"""Ramet with an archive in the cluster, and a service with a ledger that goes on until the last test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.instance import Instance
from harness.kubernetes.layout import S3_BUCKET
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from tests.kubernetes.ramets import Ledger, close_segment, login, objects_of, running_in_cluster

COMMITTED = "SELECT n, pg_xact_commit_timestamp(xmin) FROM ledger ORDER BY n"


@dataclass
class Archived:
    """Ramet, a client of it, and the service."""

    ramet: Instance
    client: Client
    namespace: str
    parent: Service
    password: str
    ledger: Ledger

    @property
    def url(self) -> str:
        """The URL of the archive."""
        return f"s3://{S3_BUCKET}/{self.namespace}"

    def committed(self) -> dict[int, datetime]:
        """Return when each row of the parent was committed, as PostgreSQL stored it."""
        with login(self.parent, self.password) as connection:
            return {int(n): at for n, at in connection.execute(COMMITTED).fetchall()}

    def fork_as_of(self, target: datetime) -> Service:
        """Request a fork of the parent as of a time."""
        return self.client.fork_service(
            self.parent.service_id, ForkStrategy.PITR, target_time=target.isoformat(), environment=Environment.DEV
        )

    def forked(self, target: datetime) -> tuple[Service, str]:
        """Fork the parent as of a time; return the fork when it is READY, with its password."""
        asked = self.fork_as_of(target)
        assert asked.initial_password is not None
        return self.client.wait_ready(asked.service_id), asked.initial_password

    def await_archived(self, service_id: str) -> None:
        """Wait until the archive has what was committed before this call."""
        now = datetime.now(UTC)

        def is_archived() -> bool:
            close_segment(service_id, self.namespace)
            until = self.client.get_archive(service_id).archived_until
            return until is not None and datetime.fromisoformat(str(until)) > now

        eventually(is_archived, "the archive", 2.0, seconds=300)

    def remove(self, service: Service) -> None:
        """Delete a service, of which nothing may be left."""
        self.client.delete_service(service.service_id)
        self.client.wait_deleted(service.service_id)
        assert objects_of(service.service_id, self.namespace) == []


@contextmanager
def running_archived() -> Iterator[Archived]:
    """Run Ramet with an archive until the end of the block."""
    with ExitStack() as stack:
        ramet, namespace = stack.enter_context(running_in_cluster(archive=True))
        client = stack.enter_context(ramet.client())
        asked = client.create_service("shop", environment=Environment.PROD)
        assert asked.initial_password is not None
        parent = client.wait_ready(asked.service_id)
        eventually(lambda: client.list_snapshots(parent.service_id) != [])
        ledger = stack.enter_context(Ledger(parent, asked.initial_password))
        yield Archived(ramet, client, namespace, parent, asked.initial_password, ledger)
