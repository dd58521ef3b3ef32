"""Standbys of databases elsewhere on this host; obeys ramet.backends.interface.followers.Followers."""

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Progress, Server
from ramet.backends.local.followers import lag, slot, source_end
from ramet.backends.local.followers.base_copy import BaseCopy, remove
from ramet.backends.local.followers.examine import examine
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.server import access, held_workers, sessions
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.jobs import Jobs
from ramet.backends.local.server.read_only_storage import check_limit
from ramet.backends.local.server.standby import ROOT_CERTIFICATE, source_directory
from ramet.backends.local.sources.copying import write_password
from ramet.backends.local.sources.tools import Workplace
from ramet.backends.local.sources.vault import Vault
from ramet.backends.local.sql import adoption, connections, foreign, raw_names
from ramet.backends.local.sql.connections import value
from ramet.backends.local.sql.securing import secure_moved
from ramet.backends.local.sql.withheld_roles import HOST_ROLES
from ramet.backends.local.volumes.disk_usage import allocated_bytes
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.control_file import read_standby_settings
from ramet.backends.local.wal.locate import WAL_DIRECTORY
from ramet.backends.local.wal.segment import segment_before, segments_in
from ramet.backends.local.wal.waldump import ends_with_shutdown
from ramet.errors import Failed, Unavailable
from ramet.model.passwords import Secret
from ramet.model.upstream import Following

_FETCHED, _COPIED, _BEFORE = "fetched", "copied", "data.before"
_MOST_AT_ONCE = 64
_SESSIONS_SECONDS = 10.0
# A service that comes from Kubernetes has the platform's role, too, which rules of its own keep out.
_SUPERUSERS = "SELECT rolname FROM pg_authid WHERE rolsuper AND oid <> 10 AND rolname <> %s ORDER BY 1"
_UNNAMED = (
    "Nobody can log in to this service: pg_hba.conf cannot keep out the superuser {!r} of the source and its members,"
    " because its name has a line feed. There: ALTER ROLE … RENAME TO another name."
)
_END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_authid client ON client.oid = usesysid
WHERE client.oid <> 10 AND client.rolname <> %s AND EXISTS (
    SELECT FROM pg_authid role
    WHERE (role.rolsuper OR role.rolname = ANY(%s)) AND pg_has_role(client.oid, role.oid, 'MEMBER'))
"""


@dataclass(frozen=True)
class LocalFollowers:
    """Physical standbys as servers of this host."""

    instances: Instances
    pool: Pool
    vault: Vault
    _watch: source_end.Watch = field(default_factory=source_end.Watch)

    @cached_property
    def jobs(self) -> Jobs:
        """The base copies that run now."""
        return self.instances.jobs_of("copies.lock", _MOST_AT_ONCE)

    def examine(
        self, source: SourceAddress, password: Secret, archive: str | None = None
    ) -> tuple[UpstreamFacts, HostFacts]:
        facts = examine(source, password)
        found = self.instances.installations.by_major.get(facts.major)
        problem = None
        if found is not None and not found.has_tls and source.sslmode != "disable":
            problem = (
                f"PostgreSQL {found.version} in {found.bin} was built without TLS, and sslmode is {source.sslmode}"
            )
        missing = () if found is None else tuple(name for name in facts.extensions if not found.has_extension(name))
        _, collation = platform.libc_ver()
        return facts, HostFacts(
            majors=tuple(sorted(self.instances.installations.by_major)),
            machine=platform.machine(),
            free_bytes=self.pool.free_bytes(),
            transport_problem=problem,
            missing_extensions=missing,
            archive_problem=None if archive is None else self._archive_problem(archive),
            collation_version=collation if facts.collation_version is not None else None,
            wal_compressions=() if found is None else found.wal_compressions,
        )

    def keep(self, server: Server, sealed: str) -> None:
        paths, upstream = self.instances.make_directories(server), server.required_upstream
        self.instances.config.make_sockets(paths)
        directory = source_directory(paths)
        self.instances.account.make_directory(directory)
        write_password(directory, self.vault.unseal(sealed).reveal())
        if upstream.root_certificate is not None:
            files.write(directory / ROOT_CERTIFICATE, upstream.root_certificate, durable=True)
        if upstream.makes_slot:
            slot.make(directory, self.vault, server.service_id, upstream, sealed)

    def fetch(self, server: Server, size_bytes: int, timeout_seconds: float) -> Progress:
        copy = self._copy_of(server)
        done = copy.directory / _FETCHED
        if not copy.paths.data.exists():
            done.unlink(missing_ok=True)
        facts = self.jobs.kept_result(copy.paths, done, copy.fetch, timeout_seconds, code="LOAD_FAILED")
        return self._progress(copy, facts, "follow again")

    def copy_again(self, server: Server, timeout_seconds: float) -> Progress:
        copy = self._copy_of(server)
        done = copy.directory / _COPIED
        if not copy.paths.unfinished.exists():
            done.unlink(missing_ok=True)

        def begin() -> dict[str, Any]:
            self.pool.check_room(allocated_bytes(copy.paths.data))
            return copy.fetch_again()

        facts = self.jobs.kept_result(copy.paths, done, begin, timeout_seconds, code="COPY_FAILED")
        return self._progress(copy, facts, "it is copied again by itself")

    def replace(self, server: Server, *, keeps_wal: bool) -> None:
        paths = self.instances.paths(server.service_id)
        directory, before = source_directory(paths), paths.root / _BEFORE
        if (directory / _COPIED).exists() and paths.unfinished.exists():
            slot.renew(directory, self.vault, server.service_id)
            if not keeps_wal:
                digests.forget(paths)
                for file in paths.archive.iterdir():
                    file.unlink()
            if paths.data.exists():
                self.pool.driver.remove_tree(before)
                paths.data.rename(before)
            paths.unfinished.rename(paths.data)
            sync_tree(paths.root)
        elif paths.unfinished.exists():
            raise Failed(
                "COPY_INTERRUPTED",
                f"The new copy of the source of service {server.service_id} is not complete",
                "It is copied again by itself.",
            )
        self.pool.driver.remove_tree(before)
        (directory / _COPIED).unlink(missing_ok=True)

    def discard_copy(self, service_id: str) -> None:
        paths = self.instances.paths(service_id)
        directory, before = source_directory(paths), paths.root / _BEFORE
        self.jobs.end(paths)
        Workplace(directory, self.instances.account).end_programs()
        if before.exists() and not paths.data.exists():
            before.rename(paths.data)
        self.pool.driver.remove_tree(paths.unfinished)
        (directory / _COPIED).unlink(missing_ok=True)

    def observe(self, server: Server) -> Following | None:
        paths, upstream = self.instances.paths(server.service_id), server.required_upstream
        try:
            found = lag.observe(paths, upstream)
            names = self._keep_superusers_out(server, paths)
        except Unavailable:
            return None
        unnamed = next((name for name in names if not access.can_name(name)), None)
        if unnamed is None or found.problem is not None:
            return found
        return msgspec.structs.replace(found, problem=_UNNAMED.format(raw_names.shown(unnamed)), still_receives=True)

    def await_end(self, server: Server, lsn: str | None, *, drain: bool, takes_place: bool = False) -> str | None:
        paths = self.instances.paths(server.service_id)
        left = source_end.left(
            paths,
            server.required_upstream,
            lsn,
            drain=drain,
            takes_place=takes_place,
            ends_with_shutdown=lambda replayed: self._ends_with_shutdown(server, paths.data / WAL_DIRECTORY, replayed),
            watch=self._watch,
        )
        if left is None:
            adoption.check_before(paths)
        return left

    def promote(self, server: Server, timeout_seconds: float, *, neutralize: bool = False) -> str | None:
        """Promote the standby, which turns clients away from then on until its credentials are its own.

        With `neutralize` it is stopped before, unless it runs without workers: it has none from its next start on.
        """
        paths = self.instances.paths(server.service_id)
        if neutralize and not held_workers.are_off(paths):
            held_workers.hold(paths)
            self.instances.stop(server, timeout_seconds)
            return "its server is started once more, without workers of its source"
        with connections.connect(paths, statement_timeout="0") as connection:
            if not value(connection, "SELECT pg_is_in_recovery()"):
                return None
            self.instances.close(server)
            connection.execute("SELECT pg_promote(false)")
            deadline = time.monotonic() + timeout_seconds
            while value(connection, "SELECT pg_is_in_recovery()"):
                if time.monotonic() > deadline:
                    return source_end.ending(value(connection, "SELECT pg_last_wal_replay_lsn()::text"))
                time.sleep(0.01)
        return None

    def take_over(self, server: Server, *, neutralize: bool, takes_place: bool = False) -> dict[str, Any]:
        own = replace(server, upstream=None)
        paths = self.instances.paths(server.service_id)
        self.instances.config.write(own, Phase.CLOSED)
        postgres.reload(paths)
        sessions.end_all(paths, _SESSIONS_SECONDS)
        found: dict[str, Any] = {}
        if not takes_place:
            found = self.instances.secure(own, is_new=False, neutralize=neutralize, rotates_all=neutralize)
        else:
            adoption.take_place(paths)
            if not secure_moved(paths, own):
                self.instances.renew(server.service_id)
        return found

    def start_workers(self, server: Server) -> None:
        paths = self.instances.paths(server.service_id)
        held_workers.release(paths)
        if held_workers.are_off(paths):
            self.instances.restart(replace(server, upstream=None))

    def discard(self, service_id: str) -> str | None:
        paths = self.instances.paths(service_id)
        directory = source_directory(paths)
        self.jobs.end(paths)
        Workplace(directory, self.instances.account).end_programs()
        self.pool.driver.remove_tree(paths.unfinished)
        left = slot.drop(directory, self.vault, service_id)
        if left is None:
            remove(directory)
        return left

    def forget(self, service_id: str) -> None:
        remove(source_directory(self.instances.paths(service_id)))

    def _copy_of(self, server: Server) -> BaseCopy:
        return BaseCopy(self.instances, self.pool.driver, server, server.required_upstream, self.pool.free_bytes)

    def _progress(self, copy: BaseCopy, facts: dict[str, Any] | None, remedy: str) -> Progress:
        if facts is not None:
            return Progress(facts)
        check_limit(self.pool, "copy of the source", remedy)
        return Progress(None, copy.progress())

    def _archive_problem(self, name: str) -> str | None:
        """Say why an archive of a source cannot be read by the servers of this host; None when it can."""
        archives = self.instances.config.source_archives
        if archives is None:
            return f"the archive {name!r} was asked for, and this host has no archives of sources"
        if not (archives / name).is_dir():
            return f"{archives} has no directory {name!r}"
        try:
            self.instances.account.check_reach(archives / name)
        except Failed as failed:
            return failed.message
        return None

    def _keep_superusers_out(self, server: Server, paths: ServicePaths) -> Sequence[str]:
        """Admit nobody from the source who reaches this host, also from just now on; follow the source's settings.

        Return its superusers.
        """
        known = foreign.read(paths)
        if known is None:
            return ()
        with connections.connect(paths) as connection:
            names = tuple(name for (name,) in connection.execute(_SUPERUSERS, (connections.PLATFORM_ROLE,)).fetchall())
            parameters = (connections.PLATFORM_ROLE, list(HOST_ROLES))
            connection.execute(_END_SESSIONS, parameters)  # also where the files below cannot be written
            found = foreign.Foreign(known.superuser, known.database, names)
            is_unloaded = self.instances.config.keep_out(server, foreign.names_of(found), connection)
            if is_unloaded or found != known:
                postgres.reload(paths)
                connection.execute(_END_SESSIONS, parameters)
            if found != known:
                foreign.write(paths, found)  # last: what comes before is done again until it is recorded
            is_paused = value(connection, "SELECT pg_get_wal_replay_pause_state()") == "paused"
        if is_paused and self._needs_larger_settings(server, paths):
            postgres.stop(paths, 1.0)  # the observer starts it again, with settings as large as the source's
        return names

    def _needs_larger_settings(self, server: Server, paths: ServicePaths) -> bool:
        wanted = read_standby_settings(self.instances.installation_of(server), paths.data)
        with connections.connect(paths) as connection:
            rows = connection.execute(
                "SELECT name, setting::int FROM pg_show_all_settings() WHERE name = ANY(%s)", (list(wanted),)
            ).fetchall()
        return any(setting < wanted[name] for name, setting in rows)

    def _ends_with_shutdown(self, server: Server, wal: Path, replayed: str) -> bool:
        """Tell whether the last record before an LSN is the checkpoint of a shutdown.

        The control file may still name an earlier timeline: the source may have switched since the last restartpoint.
        """
        number = segment_before(0, replayed).number
        timeline = max((one.timeline for one in segments_in(wal) if one.number == number), default=0)
        program = self.instances.installation_of(server).program("pg_waldump")
        return ends_with_shutdown(program, wal, timeline, replayed)
