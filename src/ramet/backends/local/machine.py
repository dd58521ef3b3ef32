"""The host as a whole: its capacity, installations, storage and ports, and what is measured and logged here."""

import errno
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import psutil

from ramet.backends.interface.values import Server
from ramet.backends.local.admission import LocalAdmission
from ramet.backends.local.endpoints.endpoints import LocalEndpoints
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.pooler.pgbouncer import describe_pgbouncer
from ramet.backends.local.pooler.pooler import Poolers
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import secured_copy
from ramet.backends.local.server import read_only_module, read_only_storage, sessions
from ramet.backends.local.server.instances import Instances, place_of
from ramet.backends.local.server.log_reader import read_log
from ramet.backends.local.server.usage import measure
from ramet.backends.local.volumes.pool import Pool, close_pool
from ramet.backends.local.volumes.reserve import Reserve
from ramet.errors import Unavailable
from ramet.model.logs import LogPage, LogQuery
from ramet.model.service_type import ServiceType
from ramet.model.size import Size

_GIB = 1024**3
_STOP_SECONDS = 120.0


@dataclass(frozen=True)
class LocalHost:
    """This host; obeys ramet.backends.interface.host.Host."""

    instances: Instances
    pool: Pool
    poolers: Poolers
    endpoints: LocalEndpoints
    admission: LocalAdmission
    free_space: read_only_storage.FreeSpace = field(default_factory=read_only_storage.FreeSpace)

    @cached_property
    def reserve(self) -> Reserve:
        """Room of the storage that is kept for when the storage is nearly full."""
        below = [] if self.pool.image is None else [self.pool.root]
        return Reserve([self.pool.path, *below])

    def size(self) -> Size:
        """Return the CPU and memory of this host."""
        return Size((psutil.cpu_count() or 1) * 1000, max(1, psutil.virtual_memory().total // _GIB))

    def default_pg_major(self, service_type: ServiceType) -> int:
        return self.instances.installations.for_type(service_type).major

    def has_tls(self, pg_major: int) -> bool:
        """Tell whether the installation of a major version has TLS; one that is gone counts as if it had."""
        installation = self.instances.installations.by_major.get(pg_major)
        return installation is None or installation.has_tls

    def address(self, service_id: str, project_id: str, host: str) -> str:
        """Return the host of all: services differ by their ports."""
        return host

    def volume_type(self) -> str:
        return self.pool.driver.name

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        self.instances.installations.of(pg_major).check_service_type(service_type)

    def check_room(self) -> None:
        self.pool.check_room()

    def port_is_free(self, port: int) -> bool:
        """Tell whether nothing on the host listens on `port`."""
        return all(_can_bind(family, port) for family in (socket.AF_INET, socket.AF_INET6))

    def describe(self) -> Sequence[tuple[str, str]]:
        installations = self.instances.installations
        return [
            ("storage", self.pool.describe()),
            ("postgresql", ", ".join(f"{one.version} in {one.bin}" for one in installations.found)),
            ("tls", installations.describe_tls()),
            ("read-only", read_only_module.describe(installations)),
            ("poolers", describe_pgbouncer()),
            ("endpoints", self.endpoints.control.describe()),
            ("limits", self.instances.limits.describe()),
            *self.admission.describe(),
            ("quotas", self.instances.quotas.describe()),
            ("servers", f"They run as the user {self.instances.account.name}."),
        ]

    def storage_pressure(self, server: Server | None, *, lasting: bool) -> str | None:
        return self._pressure(lasting) if server is None else self._quota_pressure(server, lasting)

    def _pressure(self, lasting: bool) -> str | None:
        room = self.free_space.measure(self.pool)
        if room.is_all_but_gone:
            self.reserve.release()
        elif room.is_ample and not lasting and self.reserve.fill(room.reserve_bytes):
            self.free_space.forget()
        return room.pressure(lasting=lasting)

    def _quota_pressure(self, server: Server, lasting: bool) -> str | None:
        try:
            free = self.instances.quotas.free_bytes(place_of(self.instances.paths(server.service_id)))
        except FileNotFoundError:
            return None
        return None if free is None else read_only_storage.quota_pressure(free, lasting=lasting)

    def discard_free_blocks(self) -> None:
        """Give the disk below a storage image the blocks back that no service uses."""
        self.pool.discard_free_blocks()

    def disk_usage(self, service_id: str) -> int | None:
        """Return the bytes that only the files of the service occupy; None when it has no volume."""
        data = self.instances.paths(service_id).data
        return self.pool.driver.exclusive_bytes(data) if data.is_dir() else None

    def measure(self, server: Server) -> dict[str, float] | None:
        return measure(self.instances.paths(server.service_id))

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        return read_log(self.instances.paths(server.service_id), query)

    def stop_all(self) -> None:
        """Stop every server of this data root cleanly, those of earlier processes too, and unmount its storage."""
        services = self.instances.layout.services
        found = [self.instances.paths(path.name) for path in services.iterdir()] if services.is_dir() else []
        for paths in found:
            self.poolers.stop_all(paths.service_id)
        deadline = time.monotonic() + _STOP_SECONDS
        while waiting := [paths for paths in found if not _stops(paths)]:
            if time.monotonic() > deadline:
                raise Unavailable(
                    "SERVERS_STOPPING",
                    f"{len(waiting)} servers take longer than {_STOP_SECONDS:g} s to stop",
                    ", ".join(paths.service_id for paths in waiting),
                )
        self.endpoints.control.end()
        for paths in found:
            secured_copy.end_all(paths)
            self.instances.limits.remove(paths.service_id)
        shutil.rmtree(self.instances.layout.sockets, ignore_errors=True)
        close_pool(self.pool)


def _stops(paths: ServicePaths) -> bool:
    sessions.end_unconfirmed(paths)
    return postgres.stop(paths, 0.05)


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
