"""How far the off-host archive of a service is, in files beside its local archive: for WAL, bases, and checks."""

from datetime import datetime
from typing import TypeVar

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths


class Hole(msgspec.Struct, frozen=True):
    """WAL that was lost before the archive had it: from segment `first` up to `following`, which the archive has.

    No time between `since` and `until` can be restored. `until` is the time of the first complete base backup after
    the hole, None as long as there is none.
    """

    first: str
    following: str
    since: datetime | None
    until: datetime | None = None


class WalProgress(msgspec.Struct, frozen=True):
    """Which WAL the archive at `url` has: up to a segment, and other files.

    What was committed by `archived_until` is there. Without a `url` an earlier release has written it. `noted` is the
    segment that is noted in the archive as the last one.
    """

    segment: str = ""
    other_files: tuple[str, ...] = ()
    archived_until: datetime | None = None
    holes: tuple[Hole, ...] = ()
    url: str = ""
    noted: str = ""


class Base(msgspec.Struct, frozen=True):
    """A complete base backup in the archive: from which LSN and segment on it needs WAL, and up to which LSN."""

    backup_id: str
    taken_at: datetime
    begin_lsn: str
    end_lsn: str = "0/0"
    begin_segment: str = ""


class BaseProgress(msgspec.Struct, frozen=True):
    """The newest complete base backup, and the snapshot of which another one is being uploaded."""

    newest: Base | None = None
    snapshot_id: str | None = None


class CheckProgress(msgspec.Struct, frozen=True):
    """The key after which the check of the archive continues, and what it found: a sentence by key."""

    after: str = ""
    faults: dict[str, str] = {}


_FILES: dict[type, str] = {
    WalProgress: "off_host_wal.json",
    BaseProgress: "off_host_base.json",
    CheckProgress: "off_host_check.json",
}
_Kind = TypeVar("_Kind", WalProgress, BaseProgress, CheckProgress)


def read_progress(paths: ServicePaths, kind: type[_Kind]) -> _Kind:
    """Return how far the archive of a service is; nothing of it when the file is missing or unreadable."""
    try:
        return msgspec.json.decode(files.read_bytes(paths.root / _FILES[kind]), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return kind()


def write_progress(paths: ServicePaths, progress: WalProgress | BaseProgress | CheckProgress) -> None:
    """Write how far it is. What a power failure takes is sent again."""
    files.write(paths.root / _FILES[type(progress)], msgspec.json.encode(progress))
