"""The NetworkPolicy of a fork, as a pure function: what its pods may connect to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ramet.backends.kubernetes import names

ALLOW, DENY = "allow", "deny"
_DNS_PORT = 53


@dataclass(frozen=True)
class ApiAddress:
    """An address of the API server, which the pods of a Cluster cannot do without."""

    host: str
    port: int


def closed(service_id: str, api: Sequence[ApiAddress]) -> dict[str, Any]:
    """Return the policy of a fork that has its parent's passwords and jobs still: it reaches the API server only."""
    return _policy(service_id, [_to_api(one) for one in api])


def restricted(
    service_id: str, api: Sequence[ApiAddress], networks: Sequence[str], primary_id: str | None = None
) -> dict[str, Any]:
    """Return the policy of a DEV fork that may connect to its own standbys and to some networks, but nowhere else.

    A read replica of one may connect to the servers of its primary, too.
    """
    owners = [service_id] if primary_id is None else [service_id, primary_id]
    own = {"to": [{"podSelector": {"matchLabels": names.labels_of(one)}} for one in owners]}
    dns = {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        "ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")],
    }
    beyond = [{"to": [{"ipBlock": {"cidr": one}} for one in networks]}] if networks else []
    return _policy(service_id, [*(_to_api(one) for one in api), own, dns, *beyond])


def _to_api(address: ApiAddress) -> dict[str, Any]:
    bits = 128 if ":" in address.host else 32
    return {
        "to": [{"ipBlock": {"cidr": f"{address.host}/{bits}"}}],
        "ports": [{"protocol": "TCP", "port": address.port}],
    }


def _policy(service_id: str, egress: list[dict[str, Any]]) -> dict[str, Any]:
    """Poolers are not restricted: they run no code of tenants, and connect to servers only.

    Nor are recovery jobs, which fetch WAL: their servers have no clients, and run no jobs of tenants.
    """
    others = (names.POOLER_LABEL, names.JOB_LABEL)
    chosen = {
        "matchLabels": names.labels_of(service_id),
        "matchExpressions": [{"key": key, "operator": "DoesNotExist"} for key in others],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": names.policy_name(service_id), "labels": names.labels_of(service_id)},
        "spec": {"podSelector": chosen, "policyTypes": ["Egress"], "egress": egress},
    }
