"""Connection poolers: a Pooler of CloudNativePG for each mode, behind one Service."""

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.backends.interface.values import Server, Sessions
from ramet.backends.kubernetes.cluster import Place
from ramet.errors import Invalid


def _missing() -> Invalid:
    return Invalid(
        "POOLERS_MISSING",
        "The backend for Kubernetes has no connection poolers yet",
        "Use the local backend for services with poolers, or a pooler at the client.",
    )


@dataclass(frozen=True)
class KubernetesPoolers:
    """Poolers; obeys ramet.backends.interface.poolers.Poolers."""

    place: Place

    def check(self) -> str:
        raise _missing()

    def check_database(self, server: Server) -> None:
        raise _missing()

    def start(self, servers: Sequence[Server], port: int) -> None:
        raise _missing()

    def stop(self, service_id: str) -> None:
        """Have none to stop."""

    def serves(self, service_id: str) -> bool:
        return False

    def sessions(self, server: Server) -> Sessions | None:
        """Return None: which sessions are those of clients is not known here, so none of the services is idle."""
        return None
