"""Where clients reach a service: a host that its server listens on, with TLS unless the operator does without."""

from dataclasses import dataclass

from ramet.endpoints import is_loopback
from ramet.errors import Invalid


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
        return self.endpoint_host if has_tls or is_loopback(self.endpoint_host) else "localhost"

    def check_tls(self, pg_major: int, *, has_tls: bool) -> None:
        """Raise Invalid for a new service whose endpoint would have no TLS: existing clients demand it (rule 8)."""
        if not has_tls and not self.plaintext:
            raise Invalid(
                "TLS_MISSING",
                f"PostgreSQL {pg_major} on this host was built without TLS, which clients of its endpoints demand",
                "Install a PostgreSQL that has it (Debian: postgresql; for VECTOR services with pgvector), or set "
                "RAMET_PLAINTEXT_ENDPOINTS=on and start Ramet again: endpoints without TLS then serve this host alone.",
            )
