"""The backend for Kubernetes: its protocols over one namespace, built and nothing else."""

from pathlib import Path

from ramet.backends.kubernetes.absent import (
    NoArchive,
    NoFollowers,
    NoReplacements,
    NoReplicas,
    NoSources,
    NoSubscriptions,
    NoUpgrades,
)
from ramet.backends.kubernetes.api import open_api
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.host import KubernetesHost
from ramet.backends.kubernetes.poolers import KubernetesPoolers
from ramet.backends.kubernetes.replication import KubernetesReplication
from ramet.backends.kubernetes.restore import KubernetesRestore
from ramet.backends.kubernetes.servers import KubernetesServers
from ramet.backends.kubernetes.site import Site


class KubernetesBackend:
    """Runs services as Clusters; obeys ramet.backends.interface.backend.Backend."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.poolers = KubernetesPoolers(place)
        self.servers = KubernetesServers(place, self.poolers)
        self.restore = KubernetesRestore(place)
        self.replicas = NoReplicas()
        self.replacements = NoReplacements()
        self.archive = NoArchive()
        self.sources = NoSources()
        self.subscriptions = NoSubscriptions()
        self.replication = KubernetesReplication(place)
        self.upgrades = NoUpgrades(place.site.majors)
        self.followers = NoFollowers()
        self.host = KubernetesHost(place)

    def close(self) -> None:
        """End what runs in this process; the services are not touched."""
        self.place.close()


def open_kubernetes(site: Site, kubeconfig: Path | None = None) -> KubernetesBackend:
    """Open a namespace; no request is made."""
    return KubernetesBackend(Place(open_api(kubeconfig, site.namespace), site))
