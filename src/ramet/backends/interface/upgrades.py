"""Another major version of PostgreSQL for the data of a server."""

from collections.abc import Sequence
from typing import Protocol

from ramet.backends.interface.values import Progress, Server
from ramet.model.upgrade import Statement, Survey, UpgradeFacts


class Upgrades(Protocol):
    """Upgrades of data from one major version to a later one."""

    def majors(self) -> Sequence[int]:
        """Return the major versions that servers can have here, in order."""

    def examine(self, server: Server, to_major: int) -> UpgradeFacts:
        """Read what an upgrade of a serving server depends on; nothing is changed. Raises Unavailable."""

    def survey(self, server: Server, statements: Sequence[Statement], timeout_seconds: float) -> Survey | None:
        """Count the rows of all tables of a server that is closed to clients, and plan statements of the tenants.

        Watch for at most `timeout_seconds`; None while it is under way. Each version of the data is surveyed once.
        """

    def prepare(self, server: Server) -> None:
        """Take out of a running server, closed to clients, what the platform put there for this version alone."""

    def upgrade(self, server: Server, from_major: int, timeout_seconds: float) -> Progress:
        """Bring the data of a stopped server from `from_major` to the version of `server`; watch for that long.

        It was shut down cleanly after `prepare`. Raises Failed with PostgreSQL's reason.
        """

    def hand_over(self, from_id: str, to_id: str) -> None:
        """Give all that a server has, its snapshots and archived WAL too, to an id that has nothing; it is ended first.

        Nothing happens when `from_id` has nothing, or `to_id` has something: that was done before.
        """

    def complete(self, server: Server, from_major: int) -> Sequence[str]:
        """Put into an upgraded server, closed to clients, what the platform gives to each; return what it could not do.

        The extensions are updated to the installed versions, and the admin keeps its rights over the tenants' roles.
        Logins of keys end: they stay in the data before.
        """
