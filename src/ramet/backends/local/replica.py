"""A replica: a copy of its primary's data that follows it, over the private socket and from its archive.

There is no replication slot that retains WAL on the primary. A replica reads the WAL that it has missed from the
primary's archive, which reaches as far back as the restore window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.backends.interface.replicas import refuse_standbys
from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.pooler.pooler import BALANCER, Poolers
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import base_backup
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.read_only_storage import room_of
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.errors import Unavailable, Unseen
from ramet.model.high_availability import Standbys

_SIGNAL = "standby.signal"


@dataclass(frozen=True)
class LocalReplicas:
    """The replicas of a data root; obeys ramet.backends.interface.replicas.Replicas."""

    instances: Instances
    pool: Pool

    def check_room(self, primary: Server) -> None:
        self._check_room(self.instances.paths(primary.service_id))

    def create(self, replica: Server) -> bool:
        """Make the replica's data directory, or find the one that an earlier call made.

        False means that the primary is not serving now. Raises Exhausted when a copy would take the space that other
        services need to go on.
        """
        if replica.primary is None:
            raise AssertionError("BUG: a replica without a primary")
        paths, primary = self.instances.make_directories(replica), self.instances.paths(replica.primary.service_id)
        if not paths.data.exists():
            if not postgres.is_ready(primary):
                return False
            try:
                self._copy(primary, paths)
            except Unseen:
                raise
            except Unavailable:
                return False
        return True

    def _copy(self, primary: ServicePaths, paths: ServicePaths) -> None:
        """Make the data directory, which gets its final name in the last step; an attempt that fails leaves nothing."""
        self.pool.driver.remove_tree(paths.unfinished)
        self._check_room(primary)
        try:
            base_backup.copy_running(self.pool.driver, primary, paths.unfinished)
            files.write(paths.unfinished / _SIGNAL)
            sync_tree(paths.root)
            paths.unfinished.rename(paths.data)
            sync_tree(paths.root)
        finally:
            self.pool.driver.remove_tree(paths.unfinished)

    def _check_room(self, primary: ServicePaths) -> None:
        """Raise Exhausted unless the limit of the storage is still free beside the copy of a primary."""
        copied_bytes = base_backup.copied_bytes(self.pool.driver, primary.data)
        self.pool.check_room(copied_bytes + room_of(self.pool).limit_bytes)

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        Poolers(self.instances, BALANCER).start(servers, port)

    def balancer_serves(self, service_id: str) -> bool:
        return Poolers(self.instances, BALANCER).serves(service_id)

    def check_standbys(self, standbys: Standbys) -> None:
        refuse_standbys(standbys)

    def set_standbys(self, server: Server, timeout_seconds: float) -> str | None:
        """Have none: they are refused before."""
        return None
