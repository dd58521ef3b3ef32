"""Which connections HTTP keeps: so many in all, and so many of one address that wait for their client.

A connection waits for its client until a whole request has come, and again after each answer. To make room the one
that has waited longest is closed. One whose request is being answered is never closed for another.
"""

import ipaddress
from typing import Protocol

_IPV6_NETWORK_BITS = 64  # what one host has of IPv6


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def give_way(self) -> None:
        """Close it."""


class Admission:
    """The connections of one server. Not safe to share between threads: the event loop's own calls it."""

    def __init__(self, most: int, most_waiting_of_address: int) -> None:
        self.most = most
        self._most_waiting_of_address = most_waiting_of_address
        self._networks: dict[Connection, str] = {}
        self._waiting: dict[Connection, None] = {}
        self._waiting_of: dict[str, dict[Connection, None]] = {}

    def enter(self, connection: Connection, address: str) -> bool:
        """Take in a new connection, which waits for its client; False when all others are being answered."""
        if len(self._networks) >= self.most and not self._close_oldest(self._waiting):
            return False
        self._networks[connection] = network_of(address)
        self.wait(connection)
        return True

    def wait(self, connection: Connection) -> None:
        """Note that a connection waits for its client from now on."""
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
        """Note that a whole request has come over a connection, and is being answered."""
        if connection not in self._waiting:
            return
        del self._waiting[connection]
        network = self._networks[connection]
        del self._waiting_of[network][connection]
        if not self._waiting_of[network]:
            del self._waiting_of[network]

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed; it may be forgotten already."""
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
    """Return what stands for the host of an address: of IPv6 its network, for a host has all addresses of one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK_BITS), strict=False))
