"""The two long parts of an import: pg_dump into the server's volume, and pg_restore from there into its database.

Each runs in a thread, and begins again after a crash; what it says goes through files, because the thread may be
another process's.
"""

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from ramet.backends.interface.sources import SourceAddress, SourceFacts
from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import children_of, work_done
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.standby import PASSFILE
from ramet.backends.local.sources import contents, relay, target
from ramet.backends.local.sources.examine import OWN_SCHEMA
from ramet.backends.local.sources.tools import (
    Finished,
    Workplace,
    check,
    check_dump,
    job_count,
    refused_statements,
)
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, row
from ramet.errors import Unavailable

_DUMP, _PROGRESS = "dump", "progress"
_REPORT_SECONDS = 0.5
_MOST_PROBLEMS, _PROBLEM_CHARACTERS = 10, 200
_MIB = 1024**2
_LISTS = ("schemas", "objects", "privileges", "refreshes")
_OF_A_SERVICE = ("--no-tablespaces", "--no-security-labels")
# The second value changes while indexes are built, which adds nothing to the size until the end.
_LOADED = """
SELECT pg_database_size(%s), coalesce(sum(blocks_done + tuples_done), 0)::int8 FROM pg_stat_progress_create_index
"""


@dataclass(frozen=True)
class Import:
    """One import on this host: the server that it is for, and its directory in the volume of that."""

    instances: Instances
    server: Server
    schema_only: bool = False

    @property
    def paths(self) -> ServicePaths:
        """The paths of the service."""
        return self.instances.paths(self.server.service_id)

    @property
    def directory(self) -> Path:
        """What belongs to the import alone."""
        return directory_of(self.paths)

    @property
    def workplace(self) -> Workplace:
        """Where its programs run."""
        return Workplace(self.directory, self.instances.account)

    def progress(self) -> str:
        """Return how far it is, as the thread that does it has written it."""
        return files.read(self.directory / _PROGRESS)

    def fetch(self, source: SourceAddress, facts: SourceFacts) -> dict[str, Any]:
        """Dump the source; return the facts for the report. Raises Failed."""
        self.workplace.end_programs()
        shutil.rmtree(self.directory / _DUMP, ignore_errors=True)
        sockets = files.make_directory(self.paths.sockets, "source")
        begun, tables = time.monotonic(), _Counter("dumping contents of table")
        with (
            relay.open_relay(source, sockets, self.instances.account) as through,
            self._reporting(lambda: _fetching(tables.count, through.received, facts)),
        ):
            ended = self.workplace.run(self._dump_command(), self._source_variables(source, sockets), tables.hear)
        check_dump(ended, source)
        return {"received_bytes": through.received, "seconds": round(time.monotonic() - begun, 1)}

    def load(self, facts: SourceFacts, *, owners: bool) -> dict[str, Any]:
        """Restore the dump; return the facts for the report. Raises Failed, or Unavailable when the server died.

        The dump stays: until the facts are recorded, a crash makes this begin again.
        """
        self.workplace.end_programs()
        begun, tables = time.monotonic(), _Counter("processing data for table")
        try:
            target.recreate(self.instances, self.server, facts)
            listing = self._listing()
            divided = contents.divide(listing, facts)
            total = contents.count_tables(divided)
            with target.admitting_admin(self.instances, self.server):
                with self._reporting(lambda: _loading(self.paths, tables.count, total)):
                    problems = self._restore(facts, divided, tables.hear, owners=owners)
                problems += target.finish(self.paths, self.server, facts, owners=owners)
        except Exception as error:
            if not postgres.is_ready(self.paths):
                raise Unavailable("SERVER_KILLED", f"The server of service {self.paths.service_id} ended") from error
            raise
        shown = [problem[:_PROBLEM_CHARACTERS] for problem in problems[:_MOST_PROBLEMS]]
        if len(problems) > _MOST_PROBLEMS:
            shown.append(f"and {len(problems) - _MOST_PROBLEMS} more")
        return {"tables": total, "problems": shown, "seconds": round(time.monotonic() - begun, 1)}

    def remove_dump(self) -> None:
        """Remove the dump, if it is there."""
        dump = self.directory / _DUMP
        shutil.rmtree(dump, ignore_errors=not dump.exists())

    def _restore(
        self, facts: SourceFacts, divided: contents.Contents, heard: Callable[[str], None], *, owners: bool
    ) -> list[str]:
        problems: list[str] = []
        for name in _LISTS:
            files.write(self.directory / name, "\n".join(getattr(divided, name)) + "\n")
        with target.admin_session(self.paths, self.server) as session:
            problems += target.make_roles(session, facts, owners=owners)
        roles = target.roles_of(facts, owners=owners) if owners else []
        with target.allowing_owners(self.paths, roles):
            self._load_list("schemas", owners=owners)
            target.make_extensions(self.instances, self.server, facts)
        with target.allowing_owners(self.paths, roles):
            self._load_list("objects", heard, owners=owners)
        if owners and divided.privileges:
            problems += refused_statements(self._run_restore(["-L", str(self.directory / "privileges")]))
        self._load_list("refreshes", owners=owners)
        return problems

    def _load_list(self, name: str, heard: Callable[[str], None] = lambda _: None, *, owners: bool) -> None:
        if not files.read_existing(self.directory / name).strip():
            return
        options = ["-L", str(self.directory / name), "--exit-on-error", "--verbose", f"--jobs={job_count()}"]
        ended = self._run_restore(options if owners else [*options, "--no-owner", "--no-privileges"], heard)
        check(ended, "LOAD_FAILED", "pg_restore could not load what was fetched from the source")

    def _run_restore(self, options: Sequence[str], heard: Callable[[str], None] = lambda _: None) -> Finished:
        program = self.instances.installation_of(self.server).program("pg_restore")
        command = [program, "--dbname", DATABASE, "--no-password", *_OF_A_SERVICE, *options]
        variables = {"PGHOST": str(self.paths.sockets), "PGPORT": str(self.server.listen_port), "PGUSER": ADMIN_ROLE}
        return self.workplace.run([*command, str(self.directory / _DUMP)], {**variables, **_LOCAL}, heard)

    def _dump_command(self) -> list[str]:
        program = self.instances.installation_of(self.server).program("pg_dump")
        content = ("--schema-only", "--no-publications") if self.schema_only else ("-b",)
        return [
            program, "--format=directory", f"--jobs={job_count()}", "--compress=1", "--encoding=UTF8", "--verbose",
            "--no-password", "--lock-wait-timeout=60s", "--no-subscriptions", f"--exclude-schema={OWN_SCHEMA}",
            *content, *_OF_A_SERVICE, "--file", str(self.directory / _DUMP),
        ]  # fmt: skip

    def _source_variables(self, source: SourceAddress, sockets: Path) -> dict[str, str]:
        return {
            "PGHOST": str(sockets),
            "PGPORT": str(relay.PORT),
            "PGUSER": source.user,
            "PGDATABASE": source.database,
            "PGPASSFILE": str(self.directory / PASSFILE),
            "PGSSLMODE": "disable",
            "PGGSSENCMODE": "disable",
            "PGAPPNAME": "ramet import",
        }

    def _listing(self) -> str:
        program = self.instances.installation_of(self.server).program("pg_restore")
        file = self.directory / "contents"
        ended = self.workplace.run([program, "--list", "--file", str(file), str(self.directory / _DUMP)], {})
        check(ended, "LOAD_FAILED", "pg_restore cannot read what was fetched from the source")
        return files.read_existing(file, errors="replace")

    @contextlib.contextmanager
    def _reporting(self, text: Callable[[], str]) -> Iterator[None]:
        """Write how far it is, again and again, until the end of the block."""
        over = threading.Event()
        (self.directory / _PROGRESS).unlink(missing_ok=True)

        def write() -> None:
            while not over.wait(_REPORT_SECONDS):
                with contextlib.suppress(OSError):  # the import was discarded
                    files.write(self.directory / _PROGRESS, text())

        writer = threading.Thread(target=write, name="import-progress", daemon=True)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()


_LOCAL = {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable", "PGPASSFILE": "/nonexistent"}


class _Counter:
    """Counts the lines that contain a text."""

    def __init__(self, text: str) -> None:
        self._text, self.count = text, 0

    def hear(self, line: str) -> None:
        """Count a line if it is one of them."""
        self.count += self._text in line


def directory_of(paths: ServicePaths) -> Path:
    """Return where the files of an import into a service are."""
    return paths.root / "import"


def write_password(directory: Path, password: str) -> None:
    """Write the password file of libpq (PostgreSQL 18 docs, 32.16), readable for the servers' user only."""
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    files.write(directory / PASSFILE, f"*:*:*:*:{escaped}\n", durable=True)


def _fetching(tables: int, received: int, facts: SourceFacts) -> str:
    return (
        f"{tables} of {facts.table_count} tables begun, {received // _MIB} MiB received "
        f"of a database of {facts.size_bytes // _MIB} MiB ({received} bytes)"
    )


def _loading(paths: ServicePaths, tables: int, total: int) -> str:
    try:
        with connections.connect(paths) as connection:
            size, built = row(connection, _LOADED, DATABASE)
    except (psycopg.Error, Unavailable) as error:
        return f"{tables} of {total} tables begun; {error}"
    indexes = f", {built} steps of building indexes" if built else ""
    size_in_words = f"{size // _MIB} MiB in the database ({size} bytes)"
    return f"{tables} of {total} tables begun, {size_in_words}{indexes}, work {_work_of_admin(paths)}"


def _work_of_admin(paths: ServicePaths) -> int:
    """Return a number that changes while sessions of the admin work: for long, a foreign key only reads its tables."""
    server = postgres.running(paths)
    found = children_of(server) if server is not None else ()
    return sum(work_done(pid) for pid, title in found if f" {ADMIN_ROLE} " in title)
