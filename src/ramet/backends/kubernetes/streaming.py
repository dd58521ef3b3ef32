"""Another server as the source of a Cluster's data or WAL, by streaming replication: pure functions, as `manifests`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.backends.kubernetes import names


@dataclass(frozen=True)
class Copy:
    """What the operator copies a fork of by pg_basebackup: a serving service. `facts` are noted with the Cluster."""

    service_id: str
    facts: str

    def bootstrap(self, owned: Mapping[str, str]) -> dict[str, Any]:
        """Return the part of a Cluster; `owned` names a database that is there."""
        origin = source(names.ORIGIN, self.service_id)
        return {"bootstrap": copied(names.ORIGIN, owned), "externalClusters": [origin]}


def copied(source_name: str, owned: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the bootstrap of a Cluster that begins with a copy of a source."""
    return {"pg_basebackup": {"source": source_name, **(owned or {})}}


def source(name: str, service_id: str) -> dict[str, Any]:
    """Return how the primary of a service is reached: with the certificate that the operator issued for replicas."""
    certificate = names.client_certificate_name(service_id)
    return {
        "name": name,
        "connectionParameters": {
            "host": names.writing_name(service_id),
            "user": "streaming_replica",
            "dbname": "postgres",
            "sslmode": "verify-full",
        },
        "sslKey": {"name": certificate, "key": "tls.key"},
        "sslCert": {"name": certificate, "key": "tls.crt"},
        "sslRootCert": {"name": names.authority_name(service_id), "key": "ca.crt"},
    }
