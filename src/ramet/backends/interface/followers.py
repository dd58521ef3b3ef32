"""Services that are physical standbys of databases elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Progress, Server
from ramet.model.passwords import Secret
from ramet.model.upstream import Following


@dataclass(frozen=True)
class UpstreamFacts:
    """What was read of a source, as the role that follows it.

    `machine` is the architecture, such as x86_64. `bootstrap_role` is the superuser that initdb made, and `can_enter`
    tells whether it may log in. `encoding` is that of the database that the address names.
    `settings` are those of PostgreSQL by name; one that the role may not see is missing. `extensions` are those of the
    database that the address names, and timescaledb where the server has loaded it: another database may have it.
    `reserved_roles` exist there and are needed here.
    `replication_problem` says why the role cannot stream. `collation_version` is that of the database's locale, and
    `icu_version` that of ICU, where that provides it. `slots` are the physical replication slots there, and
    `free_slots` is how many more it allows. `origins` is how many replication origins the source has.
    """

    version: str
    major: int
    machine: str
    system_identifier: str
    bootstrap_role: str
    size_bytes: int
    settings: Mapping[str, str]
    block_bytes: int = 8192
    databases: tuple[str, ...] = ()
    tablespaces: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    reserved_roles: tuple[str, ...] = ()
    replication_problem: str | None = None
    collation_version: str | None = None
    icu_version: str | None = None
    slots: tuple[str, ...] = ()
    free_slots: int = 1
    origins: int = 0
    can_enter: bool = True
    encoding: str = "UTF8"


@dataclass(frozen=True)
class HostFacts:
    """What there is here for a standby of a source.

    `majors` are the versions that are installed. `transport_problem` says why the installation cannot connect to it.
    `missing_extensions` have no library here. `archive_problem` says why the WAL archive that was asked for cannot be
    read. `wal_compressions` are those that the installation can replay.
    """

    majors: tuple[int, ...]
    machine: str
    free_bytes: int
    transport_problem: str | None = None
    missing_extensions: tuple[str, ...] = ()
    archive_problem: str | None = None
    collation_version: str | None = None
    wal_compressions: tuple[str, ...] = ("lz4", "zstd")


class Followers(Protocol):
    """Standbys of databases elsewhere. Once made, they are started, opened and stopped like any server."""

    def examine(
        self, source: SourceAddress, password: Secret, archive: str | None = None
    ) -> tuple[UpstreamFacts, HostFacts]:
        """Read what a standby depends on; nothing is changed. Raises Invalid when the source cannot be read.

        `archive` names a WAL archive of the source here.
        """

    def keep(self, server: Server, sealed: str) -> None:
        """Keep the password in the server's own directory, readable by Ramet alone, until `discard`.

        Where the service has a slot of its own, that is made in the source. Raises Failed with the source's reason.
        """

    def fetch(self, server: Server, size_bytes: int, timeout_seconds: float) -> Progress:
        """Copy the source's data into the server's volume; watch for at most `timeout_seconds`.

        After a crash it begins again. Raises Failed with the reason of PostgreSQL's tools.
        """

    def copy_again(self, server: Server, timeout_seconds: float) -> Progress:
        """Copy the source's data beside that of a standby, which may go on; watch for at most `timeout_seconds`.

        The facts are `timeline` and `redo_lsn`, where the copy begins. Raises Failed with the reason.
        """

    def replace(self, server: Server, *, keeps_wal: bool) -> None:
        """Make the new copy the data of a stopped standby. May run again. Its own slot begins with that, too.

        Unless `keeps_wal`, the WAL that was archived here is removed: the copy does not continue it. Raises Failed when
        the copy is not complete.
        """

    def discard_copy(self, service_id: str) -> None:
        """End and remove a new copy that did not replace the data."""

    def observe(self, server: Server) -> Following | None:
        """Return how far behind its source a standby is; None when it does not serve. Follows its source's settings."""

    def await_end(self, server: Server, lsn: str | None, *, drain: bool, takes_place: bool = False) -> str | None:
        """Return None when the standby has replayed all until `lsn`, and with `drain` to the source's shutdown.

        Otherwise a text that changes with the progress. Raises Failed when the source has run again after that shutdown
        and sent nothing, or may have, because a second passed without a call: with `takes_place` the `lsn` proves that
        it has not. Raises Unavailable when it does not serve.
        """

    def promote(self, server: Server, timeout_seconds: float, *, neutralize: bool = False) -> str | None:
        """End recovery: from then on the server can be written to. Return None when it has ended.

        Otherwise a text that changes with the progress, after at most `timeout_seconds`; call it again. With
        `neutralize` no worker of its source's subscriptions and jobs runs in it until `start_workers`: it may be
        stopped for that. Raises Unavailable when it does not serve: start it, and call it again.
        """

    def take_over(self, server: Server, *, neutralize: bool, takes_place: bool = False) -> dict[str, Any]:
        """Give a promoted server the platform's roles, database name and credentials; return what was changed.

        Login roles keep their passwords unless `neutralize`. With `takes_place` the source was a service of another
        Ramet, and this one is that from now on: the admin keeps its password, and subscriptions stay, too.
        Clients are kept out until it is opened.
        """

    def start_workers(self, server: Server) -> None:
        """Let the workers run that `promote` has held back in a server that was taken over since. May run again.

        That may restart it. Raises Unavailable when it does not serve: start it, and call it again.
        """

    def discard(self, service_id: str) -> str | None:
        """End the copy, if it is under way, and remove the password, and the service's own slot in the source.

        Return a warning when that slot stays, because the source cannot be reached; None otherwise. The same call tries
        it again then, and returns it again: the password goes with the server, or with `forget`.
        """

    def forget(self, service_id: str) -> None:
        """Remove the password of a source in which a slot stays. May run again."""
