"""Endpoints of services that may sleep: they stay while the server is stopped, and their clients wait."""

from collections.abc import Sequence
from typing import Protocol

from ramet.backends.interface.values import Server


class Endpoints(Protocol):
    """The endpoints of servers with a `server_port`. Opening such a server opens its endpoint, stopping it closes it.

    `readdress` is for any server.

    They stay, with the sessions on them, when Ramet stops.
    """

    def check(self) -> None:
        """Raise Invalid where services cannot sleep."""

    def fall_asleep(self, server: Server) -> bool:
        """Stop a server cleanly while its endpoint keeps accepting clients, which wait; False when one is connected.

        Raises Unavailable while it takes longer than usual; call it again to keep waiting.
        """

    def readdress(self, server: Server) -> bool:
        """Let a serving server announce its `host`: with a certificate for that and for the hosts of before.

        False when it must be restarted for that, because it has to listen elsewhere, or does not serve.
        """

    def serve(self, server: Server) -> None:
        """Pass the clients of an endpoint on to its server, those that wait first."""

    def keep(self, awake: Sequence[Server], asleep: Sequence[Server]) -> None:
        """Open the endpoints again that are not open, because their process or the host was restarted."""

    def list_open(self) -> Sequence[str]:
        """Return the services whose endpoints are open."""

    def close(self, service_id: str) -> None:
        """Close the endpoint of a service, if it is open; clients that wait are refused. May run again."""

    def refuse(self, service_id: str, message: str, hint: str) -> None:
        """End the clients that wait for a server, with an error."""

    def waiting(self, timeout_seconds: float) -> Sequence[str]:
        """Return the services that sleep and whose clients wait, as soon as there are any, or none after some time."""
