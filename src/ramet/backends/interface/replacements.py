"""Replacing the data of a service by a copy that was made beside it: same id, endpoint and credentials."""

from collections.abc import Sequence
from typing import Any, Protocol

from ramet.backends.interface.values import Capture, Server


class Replacements(Protocol):
    """The copy that will be a service, and the exchange of the data."""

    def check(self) -> None:
        """Raise Invalid, with the reason, where the data of a service cannot be replaced."""

    def reserve_timeline(self, copy: Server, service_id: str, captured: Capture) -> Capture:
        """Let the recovery of captured data begin a timeline that the service has never had, if it needs recovery.

        Before it is recovered. Returns the capture that is to be recovered.
        """

    def leave_timeline(self, copy: Server, service_id: str, timeout_seconds: float) -> str | None:
        """Bring recovered data to a timeline that the service has never had; watch for at most `timeout_seconds`.

        None when that is done, else a text that changes with the progress. So WAL that the service writes from then on
        never has the name of WAL that it has written before, and its snapshots and archived WAL stay usable.
        """

    def starts_quietly(self, copy: Server) -> bool:
        """Tell whether a recovered copy reaches no other system when it starts: it has no subscription.

        After `leave_timeline`; False also when that is not known, or when the platform has no role in the copy yet.
        Such a copy may be secured at the endpoint.
        """

    def secure(self, copy: Server, *, rotate: bool, neutralize: bool) -> dict[str, Any]:
        """Complete a running server, closed to clients; return what was neutralized. None of a copy's jobs runs.

        With `rotate` all login roles get new passwords, as in a fork.
        """

    def close(self, copy: Server) -> None:
        """Stop a running copy cleanly; what it has of WAL of earlier timelines is never archived."""

    def flush(self, server: Server) -> None:
        """Write what a serving server has in memory only, so that it stops quickly; one that is down stays so."""

    def release(self, server: Server, copy: Server) -> None:
        """Stop a server for its replacement, and note the passwords of its roles beside the copy.

        Clients of its pooler wait, as far as that is possible; others lose their sessions. It is stopped cleanly unless
        it does not start any more. Nothing of it goes to the off-host archive until `open`, or until the copy is gone.
        """

    def move_data(self, source: Server, target: Server, snapshot_ids: Sequence[str] = ()) -> None:
        """Give the data of a server that does not run to another one that has none, with some of its snapshots.

        Its other snapshots and its archived WAL stay. Nothing happens when `source` has no data, or `target` has some:
        that was done before.
        """

    def withdraw_timeline(self, server: Server, previous: Server) -> None:
        """Take out of the archive of `server`, which does not run, what data that it must give back has put there.

        That is all of timelines that the data before, now that of `previous`, has not had. Before the data is moved.
        """

    def adopt(self, server: Server, copy: Server) -> None:
        """Give the roles of a running server, closed to clients, the passwords that `release` has noted."""

    def end_timeline(self, server: Server, previous: Server) -> None:
        """Archive what the data before, now that of `previous`, has of WAL that the archive of `server` lacks.

        Afterwards the exchange must not be undone. Times before it that need WAL that is lost are a gap.
        """

    def open(self, server: Server) -> None:
        """Let clients in, and those of its pooler go on."""
