"""What makes a Cluster highly available, and one the replica of another: parts of manifests, as pure functions."""

from typing import Any

from ramet.backends.interface.values import Primary
from ramet.backends.kubernetes import names, streaming
from ramet.model.high_availability import Standbys
from ramet.model.upstream import Upstream

_PRIMARY, _SOURCE = "primary", "source"
# A killed primary keeps its lease: nobody takes over before it expires. By default that takes 15 seconds.
_LEASE = {"leaseDurationSeconds": 5, "renewDeadlineSeconds": 3, "retryPeriodSeconds": 1}


def instances(standbys: Standbys) -> dict[str, Any]:
    """Return how many instances a Cluster has, on which nodes, and how they replace one another.

    The budgets for disruptions keep a node with the only instance from being drained, so one alone has none.
    """
    if not standbys.count:
        return {"instances": 1, "enablePDB": False}
    return {
        "instances": standbys.count + 1,
        "enablePDB": True,
        "affinity": {
            "enablePodAntiAffinity": True,
            "podAntiAffinityType": "preferred",
            "topologyKey": "kubernetes.io/hostname",
        },
        "primaryLease": _LEASE,
        "primaryUpdateMethod": "switchover",
    }


def synchronous(standbys: Standbys) -> dict[str, Any]:
    """Return which standbys each commit waits for.

    Where all of them are synchronous, the primary goes on without one that is down: otherwise nothing could be
    committed after a failover, until the old primary is back. With one to spare, every commit is on two servers.
    """
    if not standbys.synchronous:
        return {}
    durability = "required" if standbys.count > standbys.synchronous else "preferred"
    return {"synchronous": {"method": "any", "number": standbys.synchronous, "dataDurability": durability}}


def following(replica_id: str, primary: Primary, *, copies: bool) -> dict[str, Any]:
    """Return what makes a Cluster begin with a snapshot or a copy of another one, and follow that one's primary.

    It has the certificate authority of its primary, so that clients and poolers trust both.
    """
    snapshot = {"apiGroup": names.SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": names.seed_name(replica_id)}
    recovery = {"recovery": {"source": _PRIMARY, "volumeSnapshots": {"storage": snapshot}}}
    return {
        "bootstrap": streaming.copied(_PRIMARY) if copies else recovery,
        "externalClusters": [streaming.source(_PRIMARY, primary.service_id)],
        "replica": {"enabled": True, "source": _PRIMARY},
    }


def following_source(service_id: str, upstream: Upstream) -> dict[str, Any]:
    """Return what makes a Cluster a standby of a server elsewhere: it begins with a copy of that, and streams."""
    secret = names.source_name(service_id)
    source: dict[str, Any] = {
        "name": _SOURCE,
        "connectionParameters": {
            "host": upstream.host,
            "port": str(upstream.port),
            "user": upstream.user,
            "dbname": upstream.database,
            "sslmode": upstream.sslmode,
            "connect_timeout": "10",
        },
        "password": {"name": secret, "key": "password"},
    }
    if upstream.root_certificate is not None:
        source["sslRootCert"] = {"name": secret, "key": "ca.crt"}
    return {
        "bootstrap": streaming.copied(_SOURCE),
        "externalClusters": [source],
        "replica": {"enabled": True, "source": _SOURCE},
    }


def certificates(server_names: list[str], primary: Primary | None) -> dict[str, Any]:
    """Return the names in the server's certificate, and for a replica the authority that issues it."""
    found: dict[str, Any] = {"serverAltDNSNames": server_names} if server_names else {}
    if primary is not None:
        authority = names.authority_name(primary.service_id)
        found |= {"serverCASecret": authority, "clientCASecret": authority}
    return {"certificates": found} if found else {}
