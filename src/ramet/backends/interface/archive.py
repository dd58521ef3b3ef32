"""The off-host archive: base backups and WAL of services where the loss of the host does not reach them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ramet.backends.interface.values import Holdings, Server, Source
from ramet.model.gaps import Gap

ARCHIVE_BUSY = "ARCHIVE_BUSY"
ARCHIVE_TAKEN_OVER = "ARCHIVE_TAKEN_OVER"  # another installation writes to it: `ramet.archive.owner`


@dataclass(frozen=True)
class ArchiveState:
    """How far the off-host archive of a service is.

    Everything that was committed before `archived_until` survives the loss of the host; None as long as no complete
    base backup is there. `base_taken_at` is the time of the newest base backup.
    `problem` says what keeps the archive from getting on, in a sentence. `gaps` are the times between two base backups
    that cannot be restored, because WAL was lost before the archive had it.
    """

    archived_until: datetime | None = None
    base_taken_at: datetime | None = None
    problem: str | None = None
    gaps: Sequence[Gap] = ()


class Archive(Protocol):
    """Where base backups and WAL are kept off the host. No method here ever holds up a server.

    All of a service is there under the `archive_name` of its server. Methods raise Unavailable with the code
    ARCHIVE_BUSY when other work on the service's archive is under way.
    """

    def url(self) -> str | None:
        """Return where the archive is; None where none is configured: then only `is_needed` may be called, too."""

    def is_needed(self) -> bool:
        """Tell whether no WAL is kept elsewhere, so that without an archive only snapshots can be restored."""

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        """Send new WAL for at most about `timeout_seconds`, and begin a base backup when one is due.

        Raises Unavailable when the archive cannot be reached, Failed when this installation may not write to it.
        """

    def is_sending(self, server: Server) -> bool:
        """Tell whether something of a service is being sent just now, such as a base backup."""

    def discard(self, server: Server, before: datetime) -> None:
        """Remove the base backups and WAL that no time from `before` on needs."""

    def remove(self, server: Server) -> None:
        """Remove all that the archive has of a service, which is deleted or not archived any more. May run twice.

        WAL stays that snapshots of the service need, where they are rolled forward with that of the archive.
        If it is archived again later, its archive begins with a new base backup.
        """

    def check(self, server: Server, budget_bytes: int) -> int:
        """Read back about `budget_bytes` of what the archive has of a service, at least one object; return the bytes.

        The next call continues after them. `maintain` says what was found altered, damaged or missing. Raises
        Unavailable when the archive cannot be reached.
        """

    def holdings(self, server: Server) -> Holdings:
        """Return what the archive has of a service, also of one that does not exist any more.

        Raises Unavailable when the archive cannot be reached.
        """

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Bring what `source` names of the archive to where `restore.capture(child, source)` finds it.

        Watch that for at most `timeout_seconds`; return a text with bytes that changes during the download, None when
        all is there. What was brought is not brought again after a crash; the capture removes it, and so does the
        destruction of the child. Raises Failed when the archive lacks something, or something in it is damaged: named.
        """
