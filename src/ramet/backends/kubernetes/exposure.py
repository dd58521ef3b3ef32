"""The Services by which clients reach servers and poolers."""

from collections.abc import Mapping
from typing import Any

from ramet.backends.kubernetes.site import Exposure, Site

POSTGRES_PORT = 5432
_KINDS = {Exposure.NODEPORT: "NodePort", Exposure.LOADBALANCER: "LoadBalancer", Exposure.CLUSTER: "ClusterIP"}


def service_of(
    metadata: Mapping[str, Any],
    site: Site,
    port: int,
    host: str,
    selector: Mapping[str, str],
    *,
    leads_at_once: bool = False,
) -> dict[str, Any]:
    """Return the Service that leads from a port, at a host, to the pods that have some labels.

    With `leads_at_once` it leads to a pod that is not ready, too: where there is only one, clients gain nothing from a
    Service that learns of it later.
    """
    opened: dict[str, Any] = {"name": "postgres", "port": port, "targetPort": POSTGRES_PORT}
    found = dict(metadata)
    if site.exposure is Exposure.NODEPORT:
        opened |= {"port": POSTGRES_PORT, "nodePort": port}
    if site.exposure is Exposure.LOADBALANCER:
        found["annotations"] = {"external-dns.alpha.kubernetes.io/hostname": host}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": found,
        "spec": {
            "type": _KINDS[site.exposure],
            "selector": dict(selector),
            "ports": [opened],
            **({"publishNotReadyAddresses": True} if leads_at_once else {}),
        },
    }
