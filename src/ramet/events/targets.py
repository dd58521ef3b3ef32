"""Which addresses webhooks may reach: public ones, and private ones only where a setting names them.

A webhook's URL comes from a client, and this host may reach what that client must not: itself, its network, the
metadata service of its cloud. A name is resolved once, and the connection goes to an address that was checked.
"""

import ipaddress
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import httpx

from ramet.errors import Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
LONGEST_URL = 2000
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in [
        "0.0.0.0/8",
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "224.0.0.0/3",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    ]
)


class Unreachable(Exception):
    """A target may not be reached, or cannot be."""


def check_url(url: str) -> str:
    """Return the URL of a webhook. Raises Invalid; whether its name leads to a public address is seen at delivery."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError, ValueError):
        parsed = httpx.URL("")
    wrong = (
        "it is not a URL that begins with https:// or http://"
        if parsed.scheme not in ("https", "http") or not parsed.host
        else "it contains a user name or a password"
        if parsed.userinfo
        else "it contains a fragment"
        if parsed.fragment
        else f"its port is not between 1 and 65535 (got {parsed.port})"
        if parsed.port is not None and not 1 <= parsed.port <= 65535
        else f"it is longer than {LONGEST_URL} characters"
        if len(url) > LONGEST_URL
        else "it contains characters that are not printable"
        if not url.isprintable() or " " in url
        else None
    )
    if wrong is not None:
        raise Invalid("INVALID_WEBHOOK_URL", f"url cannot be delivered to: {wrong}", "Send an https:// URL.")
    return url


def is_public(address: Address) -> bool:
    """Tell whether an address is one of the public internet, also where an IPv6 address stands for an IPv4 one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _UNICAST or address.scope_id is not None:
            return False
    return address.is_global and not any(address in network for network in _NEVER if network.version == address.version)


def is_allowed(address: Address, private: Sequence[Network]) -> bool:
    """Tell whether a setting names an address."""
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in private if network.version == plain.version)


def resolve(host: str, port: int, private: Sequence[Network], *, encrypted: bool) -> str:
    """Return an address of a host to connect to. Raises Unreachable.

    All of its addresses must be permitted: one that is not shows that the name leads where it must not. Without TLS
    only those that the setting names are.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"The name {host[:100]} cannot be resolved.") from error
    addresses = [ipaddress.ip_address(str(one[4][0])) for one in found]
    for address in addresses:
        if is_allowed(address, private):
            continue
        if not is_public(address):
            raise Unreachable(
                f"{host[:100]} leads to {address}, which is no public address. The operator can permit it"
                " with RAMET_WEBHOOK_PRIVATE_TARGETS."
            )
        if not encrypted:
            raise Unreachable("Deliveries to public addresses need https://.")
    return str(addresses[0])
