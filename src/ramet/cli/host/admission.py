"""Which HTTP connections are kept: at most so many in all, and so many per address that wait for their client.

A connection waits for its client until a request is complete, and again after each answer. To make room, the connection
that has waited longest is closed. A connection whose request is being answered is never closed for another one.
"""

import ipaddress
from typing import Protocol

_IPV6_NETWORK_BITS = 64  # one host has all addresses of such a network


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def give_way(self) -> None:
        """Close the connection."""


class Admission:
    """The connections of one server. Not thread-safe: only the thread of the event loop uses it."""

    def __init__(self, most: int, most_waiting_of_address: int) -> None:
        self.most = most
        self._most_waiting_of_address = most_waiting_of_address
        self._networks: dict[Connection, str] = {}
        self._waiting: dict[Connection, None] = {}
        self._waiting_of: dict[str, dict[Connection, None]] = {}

    def enter(self, connection: Connection, address: str) -> bool:
        """Add a new connection, which waits for its client. Return False if all connections are being answered."""
        if len(self._networks) >= self.most and not self._close_oldest(self._waiting):
            return False
        self._networks[connection] = network_of(address)
        self.wait(connection)
        return True

    def wait(self, connection: Connection) -> None:
        """Record that a connection now waits for its client."""
        network = self._networks.get(connection)
        if network is None:
            return
        self.answer(connection)
        self._waiting[connection] = None
        of_network = self._waiting_of.setdefault(network, {})
        of_network[connection] = None
        if len(of_network) > self._most_waiting_of_address:
            self._close_oldest(of_network)

    def answer(self, connection: Connection) -> None:
        """Record that a request on a connection is complete and is being answered."""
        if connection not in self._waiting:
            return
        del self._waiting[connection]
        network = self._networks[connection]
        del self._waiting_of[network][connection]
        if not self._waiting_of[network]:
            del self._waiting_of[network]

    def leave(self, connection: Connection) -> None:
        """Remove a connection that is closed; it may have been removed before."""
        self.answer(connection)
        self._networks.pop(connection, None)

    def _close_oldest(self, waiting: dict[Connection, None]) -> bool:
        oldest = next(iter(waiting), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.give_way()
        return True


def network_of(address: str) -> str:
    """Return the key of the host with an address: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK_BITS), strict=False))
