"""What exists on a host for services, found without the store, and compared with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    """The kind of a resource."""

    DIRECTORY = "directory"
    SOCKETS = "socket directory"
    CGROUP = "cgroup"
    PROCESS = "process"
    POOLER = "pooler"
    SNAPSHOT = "snapshot"
    UNFINISHED = "unfinished copy"
    DOWNLOAD = "download from the off-host archive"
    MOUNT = "mount"


@dataclass(frozen=True)
class HostResource:
    """One thing on the host. `service_id` is the service that its name or path refers to; a mount has none.

    `name` identifies it among others of its kind and service: the id of a snapshot, the pid of a process, a path.
    """

    kind: Kind
    service_id: str
    name: str

    def __str__(self) -> str:
        of = f" of {self.service_id}" if self.service_id and self.name != self.service_id else ""
        return f"{self.kind} {self.name}{of}"


class Inventory(Protocol):
    """Lists what exists on a host, whatever the store says."""

    def resources(self) -> Sequence[HostResource]:
        """Return all that the host holds for any service; nothing is changed."""

    def discard(self, resource: HostResource) -> None:
        """Remove one; of a directory, a process or a group: all that its service has. May run twice."""
