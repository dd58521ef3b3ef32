"""What a host holds for services, as it is found there: to be compared with the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    """What a possession is."""

    DIRECTORY = "directory"
    SOCKETS = "socket directory"
    CGROUP = "cgroup"
    PROCESS = "process"
    POOLER = "pooler"
    SNAPSHOT = "snapshot"
    UNFINISHED = "unfinished copy"
    MOUNT = "mount"


@dataclass(frozen=True)
class Possession:
    """One thing on the host. `service_id` is the name under which it lies; a mount has none.

    `name` tells it from others of its kind and service: the id of a snapshot, the pid of a process, a path.
    """

    kind: Kind
    service_id: str
    name: str

    def __str__(self) -> str:
        of = f" of {self.service_id}" if self.service_id and self.name != self.service_id else ""
        return f"{self.kind} {self.name}{of}"


class Inventory(Protocol):
    """Looks at a host, whatever the store says."""

    def possessions(self) -> Sequence[Possession]:
        """Return all that the host holds for any service; nothing is changed."""

    def discard(self, possession: Possession) -> None:
        """Remove one; of a directory, a process or a group: all that its service has. May run twice."""
