"""Where clients reach a service: a host that its server listens on, with TLS unless the operator does without."""

import ipaddress
from dataclasses import dataclass

from ramet.errors import Invalid

_LOOPBACK = "localhost"


@dataclass(frozen=True)
class Placement:
    """Where new services go: the region they report, the host clients reach them by, and the ports to choose from.

    `plaintext` lets servers without TLS serve, on loopback.
    """

    region_code: str
    endpoint_host: str
    ports: range
    plaintext: bool = False

    def host_of(self, *, has_tls: bool) -> str:
        """Return the host to announce: a server without TLS listens on loopback only, whatever the setting."""
        return self.endpoint_host if has_tls or _is_loopback(self.endpoint_host) else _LOOPBACK

    def check_tls(self, pg_major: int, *, has_tls: bool) -> None:
        """Raise Invalid for a new service whose endpoint would have no TLS: existing clients demand it (rule 8)."""
        if not has_tls and not self.plaintext:
            raise Invalid(
                "TLS_MISSING",
                f"PostgreSQL {pg_major} on this host was built without TLS, which clients of its endpoints demand",
                "Install a PostgreSQL that has it (Debian: postgresql), or set RAMET_PLAINTEXT_ENDPOINTS=on and start "
                "Ramet again: endpoints without TLS then serve this host alone.",
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOOPBACK
