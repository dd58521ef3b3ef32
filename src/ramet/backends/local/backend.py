"""The backend of this host: each service a PostgreSQL server with a volume, an archive and snapshots of its own."""

import contextlib
import errno
import logging
import math
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import psycopg

from ramet.backends.base import Capture, Observation, Readiness, Recovery, Server, Source
from ramet.backends.local.companions import Companions
from ramet.backends.local.host.certificates import open_authority
from ramet.backends.local.host.cgroups import NoLimits, open_limits
from ramet.backends.local.host.paths import ServicePaths, digest_of, layout_of, sweep_sockets
from ramet.backends.local.host.system_user import server_account
from ramet.backends.local.past import Past
from ramet.backends.local.pooler.pgbouncer import describe_pgbouncer
from ramet.backends.local.pooler.pooler import Poolers
from ramet.backends.local.process import log_files, postgres
from ramet.backends.local.process.log_bound import bound_log
from ramet.backends.local.restore import base_backup, capture, post_fork, recovery, snapshots, verify
from ramet.backends.local.restore.capture import Capturing, check_boot
from ramet.backends.local.restore.single_user import SingleUser
from ramet.backends.local.server import read_only_module, read_only_storage, sessions
from ramet.backends.local.server.configuration import Phase, first_boot, has_workers
from ramet.backends.local.server.health import observe
from ramet.backends.local.server.jobs import cpu_count
from ramet.backends.local.server.log_reader import read_log
from ramet.backends.local.server.renewal import renew_access
from ramet.backends.local.server.servers import Servers, place_of
from ramet.backends.local.server.usage import measure
from ramet.backends.local.sql import roles
from ramet.backends.local.volumes.pool import close_pool, open_pool
from ramet.backends.local.volumes.quota import open_quotas
from ramet.backends.local.volumes.reserve import Reserve
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.backends.local.wal import archive
from ramet.backends.local.wal.control_file import read_control_data
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.errors import Exhausted, Failed, Invalid, Unavailable
from ramet.machine.installation import find_installations
from ramet.model.credentials import Secret
from ramet.model.logs import LogPage, LogQuery
from ramet.model.resources import Size
from ramet.model.service import ServiceType

_log = logging.getLogger(__name__)
_GIB = 1024**3
_RESERVE_BYTES = 128 * 1024**2
_STOP_SECONDS = 120.0
_KILL_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_SESSIONS_SECONDS = 10.0
_INITIALIZED = "initialized"


@dataclass(frozen=True)
class LocalBackend(Past, Companions):
    """PostgreSQL servers as processes of this host; obeys ramet.backends.base.Backend."""

    name: str = "local"
    free_space: read_only_storage.FreeSpace = field(default_factory=read_only_storage.FreeSpace)

    @cached_property
    def reserve(self) -> Reserve:
        """Room of the storage that is kept for a shortage."""
        below = [] if self.pool.image is None else [self.pool.root]
        return Reserve([self.pool.path, *below])

    def host_size(self) -> Size:
        """Return the CPU and memory of this host."""
        return Size((psutil.cpu_count() or 1) * 1000, max(1, psutil.virtual_memory().total // _GIB))

    def default_pg_major(self, service_type: ServiceType) -> int:
        """Return the PostgreSQL major version of new services of a type."""
        return self.servers.installations.for_type(service_type).major

    def has_tls(self, pg_major: int) -> bool:
        """Tell whether the installation of a major version has TLS; one that is gone counts as if it had."""
        installation = self.servers.installations.by_major.get(pg_major)
        return installation is None or installation.has_tls

    def volume_type(self) -> str:
        """Return the storage driver's name."""
        return self.pool.driver.name

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        """Raise Invalid, saying what to install, when the installation lacks the type's extension."""
        self.servers.check_service_type(service_type, pg_major)

    def check_room(self, source: Source | None) -> None:
        """Raise Exhausted when the volume has no room for a new service (None) or for such a fork."""
        needed = _RESERVE_BYTES
        if source is not None:
            paths = self.servers.paths(source.parent.service_id)
            tree = paths.data if source.snapshot_id is None else snapshots.data_of(paths, source.snapshot_id)
            needed += self.pool.driver.estimate_bytes(tree, base_backup.NOT_DATA) if tree.is_dir() else 0
        free = self.pool.free_bytes()
        if free < needed:
            raise Exhausted(
                "NOT_ENOUGH_DISK",
                f"The storage has {free // 1024**2} MiB left, and this needs {math.ceil(needed / 1024**2)} MiB",
                f"Delete services that are not needed, or enlarge the storage at {self.pool.path}.",
            )

    def port_is_free(self, port: int) -> bool:
        """Tell whether nothing on the host listens on `port`."""
        return all(_can_bind(family, port) for family in (socket.AF_INET, socket.AF_INET6))

    def describe(self) -> Sequence[tuple[str, str]]:
        """Return what is in force here, as (title, sentence) rows for `ramet doctor`."""
        installations = self.servers.installations
        return [
            ("storage", self.pool.describe()),
            ("postgresql", ", ".join(f"{one.version} in {one.bin}" for one in installations.found)),
            ("tls", installations.describe_tls()),
            ("read-only", read_only_module.describe(installations)),
            ("poolers", describe_pgbouncer()),
            ("limits", self.servers.limits.describe()),
            ("quotas", self.servers.quotas.describe()),
            ("servers", f"They run as the user {self.servers.account.name}."),
        ]

    def initialize(self, server: Server) -> None:
        """Make the volume with an empty cluster; what an earlier try left half made is made anew."""
        paths = self.servers.make_directories(server)
        done = paths.root / _INITIALIZED
        if done.exists():
            return
        if paths.data.exists() and not postgres.kill(paths, _KILL_SECONDS):
            raise Unavailable("SERVER_ENDING", f"An earlier initdb of service {server.service_id} still ends")
        self.pool.driver.remove_tree(paths.data)
        self.pool.driver.create_tree(paths.data)
        self.servers.initialize(server)
        sync_tree(paths.root)
        self.servers.account.write(done, "")

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Copy the data of `source` into the child's new volume; not where the parent's own WAL might not fit then."""
        self.check_wal_room()
        return Capturing(self.servers, self.pool.driver).capture(child, source)

    def recover(self, child: Server, capture: Capture, patience_seconds: float) -> Recovery:
        """Bring captured data to the state that `capture` names, and prove it; watch for a moment."""
        if recovery.is_recovered(capture):
            return recovery.as_captured(capture)
        paths = self.servers.paths(child.service_id)
        check_boot(paths)
        self.servers.write_configuration(child, Phase.CLOSED)
        installation = self.servers.installations.of(child.pg_major)
        place = SingleUser(paths.data, paths.config_file, paths.recovery_log, installation, self.servers.account)
        return recovery.recover(place, capture, patience_seconds)

    def start(self, server: Server, *, first: bool = False) -> None:
        """Start the server, closed to clients. What was captured and recovered for it is flushed at its first start."""
        self._check_volume(server)
        if not first:
            self.servers.start(server, Phase.CLOSED)
            return
        paths = self.servers.paths(server.service_id)
        check_boot(paths)
        self.servers.start(server, Phase.CLOSED, first_boot())
        sync_tree(paths.root)

    def resume(self, server: Server) -> None:
        """Start a server whose credentials are its own; clients are let in as soon as it is ready."""
        self._check_volume(server)
        self.servers.start(server, Phase.OPEN)

    def await_ready(self, server: Server, patience_seconds: float) -> Readiness:
        """Watch a starting server. Raises Failed, with what its log says, when it died, Unavailable when killed."""
        return self.servers.await_ready(server, patience_seconds)

    def secure(self, server: Server, *, newborn: bool, quiet: bool) -> dict[str, Any]:
        """Give the server its own credentials; return what was neutralised, for the report.

        A server of a fork whose jobs were held back by its first start is started once more: they run from now on.
        """
        found = self.servers.secure(server, is_new=newborn, quiet=quiet)
        if not newborn and has_workers(self.servers.features(server)):
            self._await(server, lambda: self.servers.stop(server, _LOOK_SECONDS))
            self.servers.start(server, Phase.CLOSED)
            self._await(server, lambda: self.servers.await_ready(server, _LOOK_SECONDS).ready)
        return found

    def renew(self, server: Server) -> bool:
        """Give a serving server, and its pooler, that an earlier release made what this one gives to new ones.

        False: ask again.
        """
        done = server.primary is not None or self.servers.renew(server.service_id)
        try:
            renew_access(self.servers, server)
            if server.pooler_port is not None:
                self.start_pooler([server], server.pooler_port)
        except (psycopg.Error, Unavailable, Failed, Invalid) as error:
            _log.warning("service %s keeps the configuration of an earlier release: %s", server.service_id, error)
        return done

    def examine(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        """Return what a serving fork's report should add: what did not come along, where its history ends."""
        paths = self.servers.paths(child.service_id)
        parent = None if parent_id is None else self.servers.paths(parent_id)
        installation = self.servers.installations.of(child.pg_major)
        return post_fork.examine(self.pool.driver, installation, paths, parent, capture.capture_of(paths))

    def analyze(self, server: Server, patience_seconds: float) -> str | None:
        """Collect the statistics of a serving server; return how that ended, None while it is under way."""
        return post_fork.analyze(self.servers.jobs, self.servers.paths(server.service_id), patience_seconds)

    def check_data(self, server: Server, patience_seconds: float) -> str | None:
        """Read all data of a throw-away server for damage; None while that goes on, then the complaints, or ""."""
        return verify.check_data(self.servers.jobs, self.servers.paths(server.service_id), patience_seconds)

    def open(self, server: Server) -> None:
        """Let clients in, and return when the endpoint answers them, and its pooler if it has one.

        A service whose pooler cannot be started serves without it.
        """
        self.servers.open(server)
        if server.pooler_port is not None:
            try:
                self.start_pooler([server], server.pooler_port)
            except (Failed, Invalid) as error:
                _log.warning("service %s serves without its pooler: %s", server.service_id, error)

    def set_password(self, server: Server, verifier: Secret) -> None:
        """Give the admin of a serving server another password."""
        self.servers.set_password(server, verifier)

    def has_password(self, server: Server, password: Secret) -> bool:
        """Tell whether this password opens a server to the admin; False too where the server cannot be asked."""
        return roles.admin_has(self.servers.paths(server.service_id), password)

    def resize(self, server: Server) -> bool:
        """Put the size of `server` in force as far as that goes while it serves; False when it must be restarted."""
        return self.servers.resize(server)

    def stop(self, server: Server) -> None:
        """Turn clients away, and stop cleanly: PostgreSQL archives what was written on its way down.

        A server that crashed is started once more for that, closed to clients: only what was stopped cleanly can be
        copied as it is. Raises Unavailable while it takes longer than usual; asking again goes on.
        """
        paths = self.servers.paths(server.service_id)
        Poolers(self.servers).stop_all(server.service_id)
        if server.primary is not None:
            self._stop_replica(server, paths)
            return
        if postgres.running(paths) is None and not self._is_clean(server, paths):
            self.start(server)
            self._await(server, lambda: self.servers.await_ready(server, _LOOK_SECONDS).ready)
        if postgres.is_ready(paths):
            with contextlib.suppress(Unavailable):  # it is on its way down already
                self.servers.close(server)
                sessions.end_all(paths, _SESSIONS_SECONDS)
        self._await(server, lambda: self.servers.stop(server, _LOOK_SECONDS))
        if not self._is_clean(server, paths):
            raise Unavailable("NOT_CLEANLY_STOPPED", f"The server of service {server.service_id} crashed meanwhile")

    def _stop_replica(self, server: Server, paths: ServicePaths) -> None:
        """Stop a replica: what it has not written yet it gets from its primary again."""
        if postgres.is_ready(paths):
            with contextlib.suppress(Unavailable):  # it is on its way down already
                self.servers.close(server)
                sessions.end_all(paths, _SESSIONS_SECONDS)
        self._await(server, lambda: self.servers.stop(server, _LOOK_SECONDS))

    def destroy(self, service_id: str) -> None:
        """Stop the server and remove all that it had on the host; its snapshots and archive too."""
        paths = self.servers.paths(service_id)
        Poolers(self.servers).stop_all(service_id)
        self.servers.remove(service_id, _KILL_SECONDS)
        self.pool.driver.remove_tree(capture.unfinished_of(paths))
        self.pool.driver.remove_tree(paths.data)
        snapshots.drop_all(self.pool.driver, paths)
        if paths.root.exists():
            shutil.rmtree(paths.root)

    def shortage(self, *, lasting: bool) -> str | None:
        """Say that so little room is left that writing servers may go down; None while there is enough."""
        room = self.free_space.measure(self.pool)
        if room.is_all_but_gone:
            self.reserve.release()
        elif room.is_ample and not lasting:
            self.reserve.fill(room.reserve_bytes)
        return room.shortage(lasting=lasting)

    def quota_shortage(self, server: Server, *, lasting: bool) -> str | None:
        """Say that a service has used up nearly all of its quota; None while there is enough, or no quota."""
        try:
            free = self.servers.quotas.free_bytes(place_of(self.servers.paths(server.service_id)))
        except FileNotFoundError:
            return None
        return None if free is None else read_only_storage.quota_shortage(free, lasting=lasting)

    def hold_writes(self, server: Server, *, held: bool) -> None:
        """Make the sessions of a serving server read-only, ending those that write, or lift that again."""
        paths = self.servers.paths(server.service_id)
        if held:
            if self.pool.driver.shares_blocks:
                wal = paths.data / WAL_DIRECTORY
                archive.link_waiting(wal / STATUS_DIRECTORY, wal, paths.archive, self.pool.driver.clone_file)
            read_only_storage.set_read_only(paths, self.servers.account)
        else:
            read_only_storage.set_writable(paths)

    def heed_readers(self, server: Server) -> None:
        """Take the rights to write from roles that tenants marked as read-only since the last call."""
        self.servers.read_only_roles.enforce(self.servers.paths(server.service_id))

    def observe(self, server: Server) -> Observation:
        """Look at a server that should be serving."""
        return observe(self.servers.paths(server.service_id), is_replica=server.primary is not None)

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        """Return a page of the server's own log, newest first, without secrets."""
        return read_log(self.servers.paths(server.service_id), query)

    def trim_log(self, service_id: str) -> None:
        """Remove what is too old or too much of a server's own log, which may be written meanwhile."""
        paths = self.servers.paths(service_id)
        bound_log(paths, self.servers.account)
        log_files.prune(paths, time.time())

    def measure(self, server: Server) -> dict[str, float] | None:
        """Return what is measured of a server now; None when it does not serve."""
        return measure(self.servers.paths(server.service_id))

    def space_bytes(self, service_id: str) -> int | None:
        """Return the bytes that the service alone occupies; None when it has no volume."""
        root = self.servers.paths(service_id).root
        return self.pool.driver.exclusive_bytes(root) if root.is_dir() else None

    def give_back(self) -> None:
        """Give the disk below a storage image the blocks back that no service uses."""
        self.pool.discard_free_blocks()

    def stop_all(self) -> None:
        """Stop every server of this data root cleanly, those of earlier processes too, and let go of its storage."""
        services = self.servers.layout.services
        found = [self.servers.paths(path.name) for path in services.iterdir()] if services.is_dir() else []
        for paths in found:
            Poolers(self.servers).stop_all(paths.service_id)
        deadline = time.monotonic() + _STOP_SECONDS
        while waiting := [paths for paths in found if not postgres.stop(paths, 0.05)]:
            if time.monotonic() > deadline:
                raise Unavailable(
                    "SERVERS_STOPPING",
                    f"{len(waiting)} servers take longer than {_STOP_SECONDS:g} s to stop",
                    ", ".join(paths.service_id for paths in waiting),
                )
        shutil.rmtree(self.servers.layout.sockets, ignore_errors=True)
        close_pool(self.pool)

    def close(self) -> None:
        """Let go of the host. Servers go on, and nothing else is held."""

    def _check_volume(self, server: Server) -> None:
        if not self.servers.paths(server.service_id).data.is_dir():
            raise Failed("VOLUME_LOST", f"The volume of service {server.service_id} is lost", "It cannot be started.")

    def _is_clean(self, server: Server, paths: ServicePaths) -> bool:
        program = self.servers.installations.of(server.pg_major).program("pg_controldata")
        return read_control_data(program, paths.data).is_clean

    def _await(self, server: Server, seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        while not seen():
            if time.monotonic() > deadline:
                raise Unavailable("SERVER_STOPPING", f"The server of service {server.service_id} is still stopping")


def open_backend(
    data_root: Path,
    driver: str = "auto",
    *,
    image_size_bytes: int | None = None,
    has_limits: bool = True,
    temp_file_mbs: int | None = None,
    background_jobs: int | None = None,
    service_quota_bytes: int | None = None,
) -> LocalBackend:
    """Return the backend of a data root; its storage is made, or mounted again, when needed.

    `temp_file_mbs` bounds the temporary files of each process of a server; None means a share of the storage.
    """
    has_quotas = service_quota_bytes is not None
    pool = open_pool(data_root, driver=driver, image_size_bytes=image_size_bytes, has_quotas=has_quotas)
    servers = Servers(
        layout=layout_of(data_root, pool.path),
        account=server_account(),
        installations=find_installations(),
        authority=open_authority(data_root / "secrets"),
        limits=open_limits(digest_of(data_root)) if has_limits else NoLimits("RAMET_LIMITS is off"),
        copy_on_write=pool.driver.shares_blocks,
        temp_file_mbs=temp_file_mbs or read_only_storage.temp_file_mbs(pool.total_bytes()),
        background_jobs=background_jobs or cpu_count(),
        quotas=open_quotas(pool, service_quota_bytes),
    )
    sweep_sockets(servers.layout, time.time())
    return LocalBackend(pool, servers)


def _can_bind(family: socket.AddressFamily, port: int) -> bool:
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family is socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(("", port))
            probe.listen(1)
            return True
    except OSError as error:
        return error.errno == errno.EAFNOSUPPORT
