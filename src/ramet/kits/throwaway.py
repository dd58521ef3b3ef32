"""A fork that exists while a block runs, and is gone soon after it, whatever way it ends."""

import logging
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string, speaks_tls
from ramet.cli.ui.options import Parent
from ramet.client import Client, ForkStrategy, Keeping
from ramet.client.errors import is_absence
from ramet.endpoints import DATABASE, connection_variables
from ramet.errors import Error, Failed
from ramet.model.names import suffixed

OUTLIVES_SECONDS = 600
_RENEWALS = 4
_ATTEMPTS = 60  # while renewals fail
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Throwaway:
    """A fork that is READY, with what opens it."""

    service: Service
    password: str

    @property
    def uri(self) -> str:
        """The connection string, with the password."""
        return self.uri_of(DATABASE)

    def uri_of(self, database: str) -> str:
        """Return the connection string for another database of the fork."""
        return connection_string(self.service.endpoint, self.password, database=database)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that lead libpq, most drivers and frameworks to the fork."""
        endpoint = self.service.endpoint
        return {
            **connection_variables(endpoint.host, endpoint.port, tls=speaks_tls(endpoint)),
            "DATABASE_URL": self.uri,
            "PGPASSWORD": self.password,
            "RAMET_SERVICE_ID": self.service.service_id,
        }


@contextmanager
def throwaway_fork(
    client: Client,
    parent: Parent,
    strategy: ForkStrategy = ForkStrategy.NOW,
    *,
    labels: Mapping[str, str] | None = None,
    outlives_seconds: int = OUTLIVES_SECONDS,
    target_time: str | None = None,
    snapshot_id: str | None = None,
    max_age_seconds: int | None = None,
) -> Iterator[Throwaway]:
    """Yield a fork that is READY, and delete it at the end of the block.

    It has a life span of `outlives_seconds`, which begins again while the block runs: where this process is killed, or
    Ramet cannot be reached at the end, the fork expires by itself. Raises what the client raises.
    """
    fork = client.fork_service(
        parent.service_id,
        strategy,
        name=suffixed(parent.name, f"-run-{secrets.token_hex(3)}"),
        keeping=Keeping(ttl_seconds=outlives_seconds, labels=labels),
        target_time=target_time,
        snapshot_id=snapshot_id,
        max_age_seconds=max_age_seconds,
    )
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(client, fork, outlives_seconds, ended), daemon=True)
    renewing.start()
    try:
        password = fork.initial_password
        if not isinstance(password, str):
            raise Failed("PASSWORD_MISSING", f"The fork {fork.name} came without a password", "Try again.")
        yield Throwaway(client.wait_ready(fork.service_id), password)
    finally:
        ended.set()
        renewing.join()
        _delete(client, fork)


def _renew(client: Client, fork: Service, outlives_seconds: float, ended: threading.Event) -> None:
    """Begin the life span again and again; where that fails, as soon as Ramet can be reached."""
    is_failing = False
    while not ended.wait(outlives_seconds / (_ATTEMPTS if is_failing else _RENEWALS)):
        try:
            client.extend_service(fork.service_id)
            is_failing = False
        except Error as error:
            if not is_failing:
                _log.warning("The life span of %s was not extended: %s", fork.name, error)
            is_failing = True


def _delete(client: Client, fork: Service) -> None:
    try:
        client.delete_service(fork.service_id)
    except Error as error:
        if not is_absence(error):
            _log.warning("%s was not deleted, and expires by itself: %s", fork.name, error)
