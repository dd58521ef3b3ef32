"""A replica: a copy of its primary's data that follows it, over the private socket and from its archive.

No slot holds WAL back on the primary. What a replica has missed lies in the primary's archive for as long as the
restore window reaches.
"""

from dataclasses import dataclass

from ramet.backends.base import Server
from ramet.backends.local.host import files
from ramet.backends.local.restore import base_backup
from ramet.backends.local.server.servers import Servers
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.errors import Unavailable

_SIGNAL = "standby.signal"
_UNFINISHED = "data.unfinished"


@dataclass(frozen=True)
class Replicas:
    """How the replicas of a data root get their data."""

    servers: Servers
    driver: Driver

    def replicate(self, replica: Server) -> bool:
        """Make the replica's data directory, or find the one that an earlier call made.

        It appears under its name as the last act. False means that the primary is not serving at this moment.
        """
        if replica.primary is None:
            raise AssertionError("BUG: a replica without a primary")
        primary = self.servers.paths(replica.primary.service_id)
        paths = self.servers.make_directories(replica)
        if paths.data.exists():
            return True
        unfinished = paths.root / _UNFINISHED
        self.driver.remove_tree(unfinished)
        try:
            base_backup.copy_running(self.driver, primary, unfinished)
        except Unavailable:
            return False
        files.write_file(unfinished, _SIGNAL)
        sync_tree(paths.root)
        unfinished.rename(paths.data)
        sync_tree(paths.root)
        return True
