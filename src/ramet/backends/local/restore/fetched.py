"""What was fetched of a service from the off-host archive for a fork: a directory in the shape of the service's own.

It is `fetched/CHILD/PARENT` in the pool: outside of the child's directory, because it does not count for its quota.
"""

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import Layout, ServicePaths
from ramet.backends.local.volumes.driver import Driver
from ramet.errors import Failed, Unavailable

_DIRECTORY = "fetched"
_STATE = "fetch.json"
_LOCK = "lock"
_END = "end"
_END_WITHIN_SECONDS = 20.0


class Failure(msgspec.Struct, frozen=True):
    """Why a download cannot go on."""

    code: str
    message: str
    details: str


class State(msgspec.Struct, frozen=True):
    """How far a download is: parts of the base backup that are on disk, bytes in the store, seconds.

    `is_bound`: it ends when the target is reached, so `total_bytes` is a bound. `problem` says why it does not get on
    now. `is_superseded`: the archive has WAL of a later timeline. `unread` says why WAL soon after the target, in which
    the clock may have been set back, was not read.
    """

    base_backup_id: str
    url: str
    parts: int = 0
    done_bytes: int = 0
    total_bytes: int = 0
    seconds: float = 0.0
    is_bound: bool = False
    problem: str = ""
    failure: Failure | None = None
    is_complete: bool = False
    is_superseded: bool = False
    unread: str = ""


@dataclass(frozen=True)
class Place:
    """Where one fork's download is."""

    root: Path
    parent: ServicePaths

    def read(self) -> State | None:
        """Return how far the download is; None before it began, and when that cannot be read."""
        try:
            return msgspec.json.decode(files.read_bytes(self.root / _STATE), type=State)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def write(self, state: State, *, durable: bool = False) -> None:
        """Record how far the download is."""
        files.write(self.root / _STATE, msgspec.json.encode(state), durable=durable)

    @property
    def lock(self) -> Path:
        """A file that a download has locked as long as it works."""
        return self.root / _LOCK

    @property
    def is_ending(self) -> bool:
        """Tell whether the download is to end, because what it has is removed."""
        return not self.root.is_dir() or (self.root / _END).exists()

    def complete(self) -> State:
        """Return the state of a complete download. Raises Failed when it is not there."""
        state = self.read()
        if state is None or not state.is_complete:
            raise Failed(
                "DOWNLOAD_LOST",
                f"What was downloaded of service {self.parent.service_id} for this fork is gone",
                "Fork once more.",
            )
        return state


def place_of(layout: Layout, child_id: str, parent_id: str) -> Place:
    """Return where the data of a parent is downloaded for a fork."""
    root = directory_of(layout) / child_id
    return Place(root, ServicePaths(root / parent_id, layout.sockets / child_id))


def directory_of(layout: Layout) -> Path:
    """Return the directory of all downloads, by the ids of the forks."""
    return layout.services.parent / _DIRECTORY


def children_with_downloads(layout: Layout) -> list[str]:
    """Return the ids of the forks for which anything was downloaded."""
    directory = directory_of(layout)
    names = (path.name.partition(".partial-")[0] for path in directory.iterdir()) if directory.is_dir() else ()
    return sorted(set(names))


def discard(driver: Driver, layout: Layout, child_id: str) -> None:
    """Remove a download, and end it first. May run twice. Raises Unavailable while it does not end.

    The file that it has locked gets another name, which it notices: a storage that it has filled has no space for a new
    file.
    """
    root = directory_of(layout) / child_id
    end = root / _END
    try:
        with ExitStack() as stack:
            with suppress(FileNotFoundError):  # nothing has been downloaded, or all is removed
                if not end.exists():
                    (root / _LOCK).rename(end)
                stack.enter_context(files.locked(end, timeout_seconds=_END_WITHIN_SECONDS, flags=os.O_RDWR))
            driver.remove_tree(root)
    except TimeoutError as error:
        raise Unavailable("DOWNLOAD_ENDING", f"The download for service {child_id} has not ended yet") from error


def facts_of(state: State) -> dict[str, Any]:
    """Return what a fork's report says about the download."""
    return {
        "url": state.url,
        "base_backup": state.base_backup_id,
        "downloaded_bytes": state.done_bytes,
        "seconds": state.seconds,
        **({"unread": state.unread} if state.unread else {}),
    }
