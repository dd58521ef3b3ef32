"""The life of the servers of this host."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any

import psycopg

from ramet.backends.interface.values import ExtensionUpdate, Maintenance, Observation, Readiness, Server
from ramet.backends.local.endpoints.endpoints import LocalEndpoints
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import looking_at
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.pooler.pooler import Poolers
from ramet.backends.local.process import log_files, postgres
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.process.log_bound import bound_log
from ramet.backends.local.restore import capture, fetched, secured_copy, snapshots
from ramet.backends.local.server import access, read_only_storage, sessions
from ramet.backends.local.server.configuration import Phase, boot_to_stop, first_boot, has_workers
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import extensions, roles
from ramet.backends.local.upgrades import cluster
from ramet.backends.local.volumes.atomic import remove_all, remove_files
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.backends.local.wal import archive, digests
from ramet.backends.local.wal.control_file import read_control_data
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.passwords import Secret

_log = logging.getLogger(__name__)
_KILL_SECONDS = 10.0
_SESSIONS_SECONDS = 10.0
_LOG_SECONDS = 20.0
_ARCHIVE_SECONDS = 10.0
_CERTIFICATE_SECONDS = 24 * 3600.0
_INITIALIZED = "initialized"


@dataclass(frozen=True)
class LocalServers:
    """PostgreSQL servers as processes of this host; obeys ramet.backends.interface.servers.Servers."""

    instances: Instances
    pool: Pool
    poolers: Poolers
    _due_at: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def driver(self) -> Driver:
        """What copies and removes the trees of this storage."""
        return self.pool.driver

    @cached_property
    def endpoints(self) -> LocalEndpoints:
        """The endpoints that outlive these servers."""
        return LocalEndpoints(self.instances, self.halt)

    def initialize(self, server: Server) -> None:
        """Make the volume with an empty cluster; an incomplete one from an earlier attempt is replaced."""
        paths = self.instances.make_directories(server)
        done = paths.root / _INITIALIZED
        if done.exists():
            return
        if paths.data.exists() and not postgres.kill(paths, _KILL_SECONDS):
            raise Unavailable("SERVER_ENDING", f"An initdb of service {server.service_id} is still shutting down")
        self.driver.remove_tree(paths.data)
        self.driver.create_tree(paths.data)
        self.instances.initialize(server)
        sync_tree(paths.root)
        files.write(done, durable=True)

    def start(self, server: Server, *, clients: bool = False, first: bool = False) -> None:
        """Start the server, closed to clients or open. At its first start, what was captured for it is flushed.

        A fork that was secured in advance, its own password included, is open from its first start on, unless it is
        started twice. A server that runs since a stop that failed is stopped before.
        """
        self._check_volume(server)
        paths = self.instances.paths(server.service_id)
        if postgres.only_stops(paths):
            self.halt(server)
        if not first:
            self.instances.start(server, Phase.OPEN if clients else Phase.CLOSED)
            return
        if not capture.is_flushed(paths):
            capture.check_boot(paths)
        self.instances.start(server, Phase.OPEN if self._starts_open(server) else Phase.CLOSED, first_boot())
        written_back = paths.data if capture.is_prepared(paths) else None
        capture.flush(paths, written_back, secured_copy.changed_files(paths))
        capture.note_flushed(paths)

    def await_ready(self, server: Server, timeout_seconds: float) -> Readiness:
        """Watch a starting server. Raises Failed, with what its log says, when it died, Unavailable when killed."""
        return self.instances.await_ready(server, timeout_seconds)

    def secure(self, server: Server, *, is_new: bool, neutralize: bool) -> dict[str, Any]:
        """Give the server its own credentials; return what was neutralized, for the report.

        A server of a fork whose jobs were held back by its first start is started once more: they run from now on.
        """
        paths = self.instances.paths(server.service_id)
        found = None if is_new else secured_copy.complete(paths, server, neutralize=neutralize)
        if found is None:
            found = self.instances.secure(server, is_new=is_new, neutralize=neutralize)
        if not is_new and self._starts_twice(server):
            self.instances.restart(server)
        return found

    def _starts_open(self, server: Server) -> bool:
        """Tell whether a fork is open from its first start on."""
        paths = self.instances.paths(server.service_id)
        return not self._starts_twice(server) and secured_copy.has_own_verifier(paths, server)

    def _starts_twice(self, server: Server) -> bool:
        """Tell whether a fork is restarted when it is secured, so that the workers of its extensions begin."""
        return has_workers(self.instances.config.features(server))

    def open(self, server: Server) -> None:
        """Let clients in, and return when the endpoint answers them, and its pooler if it has one.

        A service whose pooler cannot be started serves without it.
        """
        paths = self.instances.paths(server.service_id)
        if not (self._starts_open(server) and self.instances.is_open(server)):
            self.instances.open(server)
        secured_copy.note(paths.root, None)
        if server.server_port is not None:
            self.endpoints.serve(server)
        if server.pooler_port is not None:
            try:
                self.poolers.start([server], server.pooler_port)
            except (Failed, Invalid) as error:
                _log.warning("service %s serves without its pooler: %s", server.service_id, error)

    def resize(self, server: Server) -> bool:
        """Put the size of `server` in force as far as that goes while it serves; False when it must be restarted."""
        return self.instances.resize(server)

    def stop(self, server: Server) -> None:
        """Turn clients away, and stop cleanly: PostgreSQL archives what was written on its way down.

        A server that crashed is started once more for that, closed to clients: only what was stopped cleanly can be
        copied as it is. A replica may crash: what it has not written yet it gets from its primary again. Raises
        Unavailable while it takes longer than usual; call it again to keep waiting.
        """
        self.endpoints.close(server.service_id)
        self.poolers.stop_all(server.service_id)
        self.halt(server)

    def halt(self, server: Server, before: Callable[[], None] = lambda: None, *, must_run: bool = False) -> None:
        """Stop a server as `stop` does, but not its pooler. `before` is called when its clients are turned away.

        With `must_run` one that was stopped cleanly is started for that, too.
        """
        paths, is_primary = self.instances.paths(server.service_id), not server.is_standby
        if is_primary and postgres.running(paths) is None and (not self._is_clean(server, paths) or must_run):
            self._check_volume(server)
            self.instances.boot(server, boot_to_stop())
        if is_primary:
            self.instances.await_recovery(server)
        if postgres.is_ready(paths):
            with contextlib.suppress(Unavailable):  # it is on its way down already
                self._turn_away(server)
                sessions.end_all(paths, _SESSIONS_SECONDS)
                before()
        self.instances.await_end(server)
        if is_primary and not self._is_clean(server, paths):
            raise Unavailable("NOT_CLEANLY_STOPPED", f"The server of service {server.service_id} crashed as it stopped")

    def _turn_away(self, server: Server) -> None:
        """Turn clients away. After the restore of an older store the server may not listen where that says."""
        try:
            self.instances.close(server)
        except Failed as error:
            _log.warning("service %s is stopped, and may not have turned clients away: %s", server.service_id, error)

    def destroy(self, service_id: str) -> None:
        """Stop the server and remove all that it had on the host; its snapshots and archive too.

        What the disk refuses to remove keeps nothing else: its error is raised at the end. Where this process cannot
        tell whether something still runs, nothing more is removed: that would be what finds it again.
        """
        paths = self.instances.paths(service_id)
        self.endpoints.close(service_id)
        for work in ("log", "archive", "certificate"):  # not what the dict has: maintenance adds to it at this moment
            self._due_at.pop((service_id, work), None)
        self.instances.read_only_roles.forget(service_id)
        remove_all(
            partial(self.poolers.stop_all, service_id),
            partial(self.instances.end, service_id, _KILL_SECONDS),
            partial(self.instances.remove_directories, service_id),
            partial(fetched.discard, self.driver, self.instances.layout, service_id),
            partial(self.driver.remove_tree, paths.unfinished),
            partial(cluster.remove, self.driver, paths),
            partial(self.driver.remove_tree, paths.data),
            partial(self.poolers.stop_all, service_id),  # a duty may have started one; without data it starts no other
            partial(secured_copy.end_all, paths),
            partial(snapshots.drop_all, self.driver, paths),
            partial(remove_files, paths.root),
        )

    def refresh(self, server: Server) -> bool:
        """Give a serving server, and its pooler, that an earlier release made what this one gives to new ones.

        False: ask again.
        """
        done = server.is_standby or self.instances.renew(server.service_id)
        try:
            self.instances.renew_access(server)
            if server.pooler_port is not None:
                self.poolers.start([server], server.pooler_port)
        except (psycopg.Error, Unavailable, Failed, Invalid) as error:
            _log.warning("service %s keeps the configuration of an earlier release: %s", server.service_id, error)
        return done

    def set_password(self, server: Server, verifier: Secret) -> None:
        self.instances.set_password(server, verifier)

    def has_password(self, server: Server, password: Secret) -> bool | None:
        return roles.admin_has(self.instances.paths(server.service_id), password)

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate] | None:
        return extensions.update(self.instances.paths(server.service_id), name)

    def inspect(self, server: Server) -> Observation:
        with looking_at(f"the server of service {server.service_id}"):
            return _observed(self.instances.paths(server.service_id), is_replica=server.primary is not None)

    def set_read_only(self, server: Server, *, read_only: bool) -> None:
        paths = self.instances.paths(server.service_id)
        if read_only:
            if self.driver.shares_blocks:
                wal = paths.data / WAL_DIRECTORY
                archive.link_waiting(wal / STATUS_DIRECTORY, wal, paths.archive, self.driver.clone_file)
            receives = not read_only_storage.room_of(self.pool).is_half_gone
            read_only_storage.set_read_only(paths, is_standby=server.is_standby, receives=receives)
        else:
            read_only_storage.set_writable(paths)

    def maintain(self, server: Server, budget_seconds: float, now: datetime) -> Maintenance:
        """Do the regular work on a server: its log and archive every few seconds, its certificate once a day."""
        paths = self.instances.paths(server.service_id)
        is_primary, is_ready = server.primary is None, postgres.is_ready(paths)
        if not server.is_standby and is_ready:
            self.instances.read_only_roles.enforce(paths)
        if self._is_due(server, "log", _LOG_SECONDS):
            bound_log(paths, self.instances.account)
            log_files.prune(paths, now.timestamp())
            self.poolers.bound_logs(server.service_id)
        if is_primary and self._is_due(server, "archive", _ARCHIVE_SECONDS):
            if not server.is_standby:
                archive.add_histories(paths.data / WAL_DIRECTORY, paths.archive)
            if digests.record(paths, budget_seconds, frees=self.driver.shares_blocks):
                self._due_at.pop((server.service_id, "archive"), None)  # there may be more: continue at the next call
        if is_ready and self._is_due(server, "certificate", _CERTIFICATE_SECONDS):  # others get one when they start
            self.instances.keep_certificate(server)
            self.poolers.load_certificate(server.service_id)
        return Maintenance(archive.delay(paths.data) if is_primary else None)

    def _is_due(self, server: Server, work: str, every_seconds: float) -> bool:
        now, key = time.monotonic(), (server.service_id, work)
        is_due = now >= self._due_at.get(key, now)
        if is_due:
            self._due_at[key] = now + every_seconds
        return is_due

    def _check_volume(self, server: Server) -> None:
        if not files.is_there(self.instances.paths(server.service_id).data):
            raise Failed("VOLUME_LOST", f"The volume of service {server.service_id} is lost", "It cannot be started.")

    def _is_clean(self, server: Server, paths: ServicePaths) -> bool:
        return read_control_data(self.instances.installation_of(server), paths.data).is_clean


def _observed(paths: ServicePaths, is_replica: bool) -> Observation:
    if not files.is_there(paths.data):
        return Observation(False, f"The volume of service {paths.service_id} is lost.", is_lost=True)
    if postgres.only_stops(paths):
        return Observation(False, "Its server was started only to be stopped cleanly.")
    if postgres.is_ready(paths):
        is_closed = not access.is_open(files.read(paths.hba_file, errors="surrogateescape"))
        reason = "Its server turns clients away." if is_closed else ""
        return Observation(True, reason, not is_replica or _follows(paths), is_closed=is_closed)
    if postgres.running(paths) is not None:
        return Observation(False, "Its server is running but does not accept connections yet.")
    return Observation(False, "Its server is not running.")


def _follows(paths: ServicePaths) -> bool:
    """Tell whether there is a WAL receiver; one that cannot connect exits at once."""
    pid = postgres.running(paths)
    roles = [title.rpartition(": ")[2] for _, title in children_of(pid)] if pid is not None else []
    return any(role.startswith("walreceiver") and not role.endswith("idle") for role in roles)
