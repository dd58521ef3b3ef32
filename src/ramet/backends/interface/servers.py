"""The life of a PostgreSQL server, from its empty volume to its removal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from ramet.backends.interface.values import ExtensionUpdate, Maintenance, Observation, Readiness, Server
from ramet.model.passwords import Secret

RESIZE_UNDER_WAY, SERVER_ENDING, SERVER_KILLED = "RESIZE_UNDER_WAY", "SERVER_ENDING", "SERVER_KILLED"
SERVER_STARTING, SERVER_STOPPING = "SERVER_STARTING", "SERVER_STOPPING"


class Servers(Protocol):
    """The servers of services, forks and replicas."""

    def initialize(self, server: Server) -> None:
        """Make the volume with an empty cluster."""

    def start(self, server: Server, *, clients: bool = False, first: bool = False) -> None:
        """Start the server unless it runs.

        `clients`: its credentials are its own, and clients are let in as soon as it is ready; otherwise it is closed
        to them until `open`. `first` is a fork's first start, which may let clients in if the fork has its own
        credentials already.
        """

    def await_ready(self, server: Server, timeout_seconds: float) -> Readiness:
        """Watch a starting server for at most `timeout_seconds`.

        When it died it raises, with its log: Failed when it gave up, Unavailable with SERVER_KILLED when it was killed
        and may be started again.
        """

    def secure(self, server: Server, *, is_new: bool, neutralize: bool) -> dict[str, Any]:
        """Give the server its own credentials; return what was neutralized, for the report.

        `is_new`: create database, roles and extensions first. Otherwise it is a fork: all login roles get new
        passwords, and with `neutralize` whatever acts on the outside world is disabled.
        """

    def open(self, server: Server) -> None:
        """Let clients in, and return when the endpoint answers them, and its pooler if it has one."""

    def resize(self, server: Server) -> bool:
        """Apply the size of `server` as far as that goes while it serves; False when it must be restarted.

        Raises Unavailable, with RESIZE_UNDER_WAY while what it has begun is not complete: call it again.
        """

    def stop(self, server: Server) -> None:
        """Turn clients away, archive what was written, stop cleanly. Its pooler ends first.

        Raises Unavailable, with SERVER_STARTING or SERVER_STOPPING while that takes longer than usual, and how far it
        is: call it again to keep waiting.
        """

    def destroy(self, service_id: str) -> None:
        """Stop the server and remove all that it had; its snapshots and archive too.

        Raises Unavailable, with SERVER_ENDING while some of it is still there.
        """

    def refresh(self, server: Server) -> bool:
        """Give a serving server that an earlier release made what this one gives to new ones; False: ask again."""

    def set_password(self, server: Server, verifier: Secret) -> None:
        """Give the admin of a serving server another password. Raises Unavailable when it is not serving."""

    def has_password(self, server: Server, password: Secret) -> bool | None:
        """Tell whether this password opens a server to the admin; None where the server cannot be asked now."""

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate] | None:
        """Update one extension of a serving server, or all, to the versions that are installed; say what was tried.

        None: no database has this extension.
        """

    def inspect(self, server: Server) -> Observation:
        """Tell whether a server is serving, or why not. Raises Unseen when that cannot be determined now."""

    def set_read_only(self, server: Server, *, read_only: bool) -> None:
        """Make the sessions of a serving server read-only, ending those that write, or lift that again."""

    def maintain(self, server: Server, budget_seconds: float, now: datetime) -> Maintenance:
        """Do the regular work on a server, which may be stopped, for about `budget_seconds`; call it every second.

        Afterwards the roles that tenants marked as read-only have no rights to write, what the archive has got since
        the last call has checksums, and the server's own log is within its bounds; `now` tells how old its files are.
        What there was no time for, and roles that need what a transaction locks, are left to later calls.
        """
