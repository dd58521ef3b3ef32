"""What the servers share: capacity, installed versions, storage, ports; and what is measured and logged there."""

from collections.abc import Sequence
from typing import Protocol

from ramet.backends.interface.values import Server
from ramet.model.logs import LogPage, LogQuery
from ramet.model.service_type import ServiceType
from ramet.model.size import Size


class Host(Protocol):
    """The place where servers run, as a whole."""

    def size(self) -> Size:
        """Return the CPU and memory that the largest service may have."""

    def default_pg_major(self, service_type: ServiceType) -> int:
        """Return the PostgreSQL major version of new services of a type."""

    def has_tls(self, pg_major: int) -> bool:
        """Tell whether the endpoints of services of a PostgreSQL major version take TLS."""

    def address(self, service_id: str, project_id: str, host: str) -> str:
        """Return the host that clients of a project's service connect to, where `host` is the one that was set."""

    def volume_type(self) -> str:
        """Return the storage driver's name: reflink, btrfs, copy or memory."""

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        """Raise Invalid, saying what to install, when the installation lacks the type's extension."""

    def check_room(self) -> None:
        """Raise Exhausted when the storage has no room for a new service."""

    def port_is_free(self, port: int) -> bool:
        """Tell whether an endpoint could be made on `port`."""

    def describe(self) -> Sequence[tuple[str, str]]:
        """Return what is in force here, as (title, sentence) rows for `ramet doctor`."""

    def storage_pressure(self, server: Server | None, *, lasting: bool) -> str | None:
        """Say that so little storage is left that writing servers may go down; None while there is enough.

        Of one server: that it has used up nearly all of its quota; None without a quota, too.
        `lasting`: that was said before, and it takes more room than that to be over.
        """

    def discard_free_blocks(self) -> None:
        """Return the storage of deleted services to the file system or volume below, where that is not automatic."""

    def disk_usage(self, service_id: str) -> int | None:
        """Return the bytes of the data directory that it shares with nothing; None where that is unknown.

        Part of what `ramet_storage_bytes` measures, which counts shared blocks, too.
        """

    def measure(self, server: Server) -> dict[str, float] | None:
        """Return what is measured of a server now, by the keys of ramet.model.metrics; None when it does not serve."""

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        """Return a page of the server's own log, newest first, without secrets. Raises Invalid for a bad cursor."""

    def stop_all(self) -> None:
        """Stop every server cleanly, those that earlier processes started too."""
