"""Settings of PostgreSQL that a service has of its own: `Server.parameters`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from ramet.backends.interface.values import Server


@dataclass(frozen=True)
class InForce:
    """The value of a setting that new sessions get, and whether another one waits for a restart of the server."""

    value: str | None
    is_pending: bool = False
    description: str | None = None


class Parameters(Protocol):
    """Settings that are tried before they are put in force, and put in force while the server serves."""

    def check(self, server: Server) -> None:
        """Let PostgreSQL read the configuration with these settings, and change nothing.

        Raises Invalid with what PostgreSQL says of a value that it does not accept.
        """

    def apply(self, server: Server) -> Collection[str]:
        """Put the settings in force for a serving server; return the names of those that wait for a restart.

        Raises Unavailable when it does not serve, and Failed when PostgreSQL does not accept one: all stay as before.
        """

    def in_force(self, server: Server, names: Collection[str]) -> Mapping[str, InForce]:
        """Return what is in force of settings of a serving server. Raises Unavailable."""
