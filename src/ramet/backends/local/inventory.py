"""What this host holds for the services of a data root: directories, processes, groups, sockets, mounts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ramet.backends.interface.inventory import HostResource, Kind
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import title_of
from ramet.backends.local.restore import fetched, snapshots
from ramet.backends.local.volumes.mounts import mounts_below, unmount
from ramet.errors import Unavailable

_KILL_SECONDS = 10.0
_PARTIAL = ".partial-"
_POOLER = "pooler"


@dataclass(frozen=True)
class LocalInventory:
    """Lists what exists on the host of a local backend; obeys ramet.backends.interface.inventory.Inventory."""

    backend: LocalBackend

    def resources(self) -> Sequence[HostResource]:
        """Return all that the host holds for any service of the data root."""
        return [
            *self._processes(),
            *self._directories(),
            *self._downloads(),
            *self._sockets(),
            *self._groups(),
            *self._mounts(),
        ]

    def discard(self, resource: HostResource) -> None:
        driver, paths = self.backend.pool.driver, self.backend.instances.paths(resource.service_id)
        match resource.kind:
            case Kind.MOUNT:
                unmount(Path(resource.name))
            case Kind.SNAPSHOT:
                snapshots.drop(driver, paths, resource.name)
            case Kind.UNFINISHED:
                driver.remove_tree(paths.root / resource.name)
            case Kind.DOWNLOAD:
                fetched.discard(driver, self.backend.instances.layout, resource.service_id)
            case Kind.POOLER:
                self.backend.poolers.stop(resource.service_id)
            case Kind.PROCESS if paths.data.is_dir():
                if not postgres.kill(paths, _KILL_SECONDS):
                    raise Unavailable("SERVER_ENDING", f"{resource} is still shutting down")
            case _:
                self.backend.servers.destroy(resource.service_id)

    def _directories(self) -> Iterator[HostResource]:
        services = self.backend.instances.layout.services
        for root in sorted(services.iterdir()) if services.is_dir() else ():
            yield HostResource(Kind.DIRECTORY, root.name, root.name)
            yield from _snapshots(self.backend.instances.paths(root.name))
            if (root / _POOLER).is_dir() and self.backend.poolers.serves(root.name):
                yield HostResource(Kind.POOLER, root.name, root.name)
            for path in sorted(_unfinished(self.backend.instances.paths(root.name))):
                yield HostResource(Kind.UNFINISHED, root.name, str(path.relative_to(root)))

    def _downloads(self) -> Iterator[HostResource]:
        for child_id in fetched.children_with_downloads(self.backend.instances.layout):
            yield HostResource(Kind.DOWNLOAD, child_id, child_id)

    def _processes(self) -> Iterator[HostResource]:
        services = self.backend.instances.layout.services
        for pid in psutil.pids():
            directory = _works_in(pid)
            if directory is not None and directory != services and directory.is_relative_to(services):
                service_id = directory.relative_to(services).parts[0]
                if title_of(pid):  # a zombie has none, and is as good as gone
                    yield HostResource(Kind.PROCESS, service_id, str(pid))

    def _sockets(self) -> Iterator[HostResource]:
        sockets = self.backend.instances.layout.sockets
        for path in sorted(sockets.iterdir()) if sockets.is_dir() else ():
            yield HostResource(Kind.SOCKETS, path.name, path.name)

    def _groups(self) -> Iterator[HostResource]:
        for name in self.backend.instances.limits.names():
            yield HostResource(Kind.CGROUP, name, name)

    def _mounts(self) -> Iterator[HostResource]:
        pool = self.backend.pool
        for path in mounts_below(pool.root):
            if path != pool.path:
                yield HostResource(Kind.MOUNT, "", str(path))


def _snapshots(paths: ServicePaths) -> Iterator[HostResource]:
    for path in sorted(paths.snapshots.iterdir()) if paths.snapshots.is_dir() else ():
        if not path.name.startswith("."):
            yield HostResource(Kind.SNAPSHOT, paths.service_id, path.name)


def _unfinished(paths: ServicePaths) -> Iterator[Path]:
    """Yield what only an operation under way may have: half made copies and snapshots."""
    if paths.unfinished.exists():
        yield paths.unfinished
    for directory in (paths.root, paths.snapshots, paths.archive):
        for path in directory.iterdir() if directory.is_dir() else ():
            if _PARTIAL in path.name or (directory == paths.snapshots and path.name.startswith(".")):
                yield path


def _works_in(pid: int) -> Path | None:
    try:
        return Path(str(Path(f"/proc/{pid}/cwd").readlink()).removesuffix(" (deleted)"))
    except (*GONE, PermissionError):
        return None
