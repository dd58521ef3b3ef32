"""Databases elsewhere as sources of services on this host; obeys ramet.backends.interface.sources.Sources."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg

from ramet.backends.interface.sources import Destination, SourceAddress, SourceFacts
from ramet.backends.interface.values import Progress, Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.jobs import Jobs
from ramet.backends.local.server.read_only_storage import check_limit
from ramet.backends.local.sources.copying import Import, directory_of, write_password
from ramet.backends.local.sources.destination import destination_of
from ramet.backends.local.sources.examine import read_facts
from ramet.backends.local.sources.relay import PORT, open_short_relay
from ramet.backends.local.sources.tools import Workplace
from ramet.backends.local.sources.vault import Vault
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Invalid
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType

_FETCHED, _LOADED = "fetched", "loaded"
_EXAMINE_SECONDS = 20.0
_MOST_CHARACTERS = 1000
UNREADABLE = (psycopg.Error, ValueError, IndexError)  # what a session in a source raises for what it answered
_MOST_AT_ONCE = 256  # the worker's threads are the limit
_SESSION = (
    "SET default_transaction_read_only = on",
    "SET statement_timeout = '15s'",
    "SET lock_timeout = '5s'",
    "SET search_path = pg_catalog",
)


@dataclass(frozen=True)
class LocalSources:
    """Imports into servers of this host."""

    instances: Instances
    pool: Pool
    vault: Vault

    @cached_property
    def jobs(self) -> Jobs:
        """The imports that run now."""
        return self.instances.jobs_of("imports.lock", _MOST_AT_ONCE)

    def examine(
        self, source: SourceAddress, password: Secret, service_type: ServiceType, pg_major: int | None = None
    ) -> tuple[SourceFacts, Destination]:
        facts = examine(source, password)
        free = self.pool.free_bytes()
        return facts, destination_of(facts, service_type, self.instances.installations, free, pg_major)

    def seal(self, password: Secret) -> str:
        return self.vault.seal(password)

    def keep(self, server: Server, source: SourceAddress, sealed: str) -> None:
        paths = self.instances.make_directories(server)
        self.instances.config.make_sockets(paths)
        self.instances.account.make_directory(directory_of(paths))
        write_password(directory_of(paths), self.vault.unseal(sealed).reveal())

    def fetch(
        self,
        server: Server,
        source: SourceAddress,
        facts: SourceFacts,
        timeout_seconds: float,
        *,
        schema_only: bool = False,
    ) -> Progress:
        work = Import(self.instances, server, schema_only)
        return self._watch(work, _FETCHED, lambda: work.fetch(source, facts), timeout_seconds)

    def load(self, server: Server, facts: SourceFacts, *, owners: bool, timeout_seconds: float) -> Progress:
        work = Import(self.instances, server)
        progress = self._watch(work, _LOADED, lambda: work.load(facts, owners=owners), timeout_seconds)
        if progress.facts is not None:
            work.remove_dump()
        return progress

    def discard(self, service_id: str) -> None:
        paths = self.instances.paths(service_id)
        directory = directory_of(paths)
        self.jobs.end(paths)
        Workplace(directory, self.instances.account).end_programs()
        for path in (directory, paths.sockets / "source"):
            shutil.rmtree(path, ignore_errors=not path.exists())

    def _watch(self, work: Import, name: str, act: Callable[[], dict[str, Any]], timeout_seconds: float) -> Progress:
        """Go on with a part of an import unless it is done."""
        facts = self.jobs.kept_result(work.paths, work.directory / name, act, timeout_seconds, code="LOAD_FAILED")
        if facts is None:
            check_limit(self.pool, "import", "import again")
            return Progress(None, work.progress())
        return Progress(facts)


def examine(source: SourceAddress, password: Secret) -> SourceFacts:
    """Read what an import depends on, within a time that clients wait for. Raises Invalid."""
    with connected(source, password) as (connection, _):
        return read_facts(connection)


@contextlib.contextmanager
def connected(source: SourceAddress, password: Secret) -> Iterator[tuple[psycopg.Connection[tuple[Any, ...]], str]]:
    """Yield a session in a source that only reads, and the directory of the relay to it, for a limited time.

    Raises Invalid with the reason when it cannot be read.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ramet-") as name,
        open_short_relay(source, Path(name), _EXAMINE_SECONDS) as relay,
    ):
        try:
            with psycopg.connect(
                host=name, port=PORT, user=source.user, password=password.reveal(), dbname=source.database,
                sslmode="disable", gssencmode="disable", passfile="/nonexistent", client_encoding="UTF8",
                application_name="ramet import", autocommit=True,
            ) as connection:  # fmt: skip
                for statement in _SESSION:
                    connection.execute(statement.encode())
                yield connection, name
        except UNREADABLE as error:
            words = relay.problem or words_of(error)
            raise Invalid("SOURCE_UNREADABLE", f"The source {source} could not be examined", words) from error


def words_of(error: Exception) -> str:
    """Return what the server said, without the path of our socket, or what is wrong with its answer; never much."""
    if isinstance(error, UnicodeDecodeError):
        found = error.object[:_MOST_CHARACTERS].decode(errors="backslashreplace")
        return f"it answered with a text that is not valid UTF-8: {found}"[:_MOST_CHARACTERS]
    lines = str(error).strip().splitlines() or [type(error).__name__]
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = primary or lines[-1]
    return (text.partition("FATAL:  ")[2] or text)[:_MOST_CHARACTERS]
