"""The backend for Kubernetes: its protocols over the namespaces of services, built and nothing else."""

from collections.abc import Callable
from pathlib import Path

from ramet.backends.interface.archive import Archive
from ramet.backends.interface.endpoints import Endpoints
from ramet.backends.interface.followers import Followers
from ramet.backends.interface.insight import Insight
from ramet.backends.interface.parameters import Parameters
from ramet.backends.interface.replacements import Replacements
from ramet.backends.interface.replicas import Replicas
from ramet.backends.interface.sources import Sources
from ramet.backends.interface.subscriptions import Subscriptions
from ramet.backends.interface.upgrades import Upgrades
from ramet.backends.kubernetes.absent import absent
from ramet.backends.kubernetes.admission import KubernetesAdmission
from ramet.backends.kubernetes.api import open_api
from ramet.backends.kubernetes.archive import KubernetesArchive
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.copies import KubernetesCopies
from ramet.backends.kubernetes.followers import KubernetesFollowers
from ramet.backends.kubernetes.host import KubernetesHost
from ramet.backends.kubernetes.logins import KubernetesLogins
from ramet.backends.kubernetes.poolers import KubernetesPoolers
from ramet.backends.kubernetes.replicas import KubernetesReplicas
from ramet.backends.kubernetes.replication import KubernetesReplication
from ramet.backends.kubernetes.restore import KubernetesRestore
from ramet.backends.kubernetes.servers import KubernetesServers
from ramet.backends.kubernetes.site import Site

_SLEEP = "services that sleep: CloudNativePG can hibernate a cluster, but nothing wakes it for a client"


class KubernetesBackend:
    """Runs services as Clusters; obeys ramet.backends.interface.backend.Backend."""

    authority = ""

    def __init__(self, place: Place, root_key: Callable[[], bytes] = bytes) -> None:
        self.place = place
        self.poolers = KubernetesPoolers(place)
        self.copies = KubernetesCopies(place)
        self.servers = KubernetesServers(place, self.poolers, self.copies)
        self.restore = KubernetesRestore(place, self.copies)
        self.admission = KubernetesAdmission()
        self.logins = KubernetesLogins(place)
        self.replication = KubernetesReplication(place)
        restores = "restores in place, resets and rewinds: fork the service instead"
        subscriptions = "services that follow a database elsewhere by logical replication"
        followers = KubernetesFollowers(place, root_key)
        self.replicas: Replicas = KubernetesReplicas(place, self.copies)
        self.replacements: Replacements = absent(restores)
        archive = KubernetesArchive(place)
        place.forgetting.extend((self.servers.forget, archive.forget))
        self.archive: Archive = archive
        self.sources: Sources = absent("imports", discard=None, seal=followers.seal)
        self.subscriptions: Subscriptions = absent(subscriptions, detach=None, discard=None)
        self.insight: Insight = absent("insight into statements and sessions: connect with psql instead")
        self.parameters: Parameters = absent("settings of a service's own: set those of roles and databases with SQL")
        self.upgrades: Upgrades = absent("upgrades to another major version", majors=sorted(place.site.majors))
        self.endpoints: Endpoints = absent(_SLEEP, serve=None, keep=None, list_open=(), refuse=None, waiting=())
        self.followers: Followers = followers
        self.host = KubernetesHost(place)

    def close(self) -> None:
        """End what runs in this process; the services are not touched."""
        self.place.close()


def open_kubernetes(site: Site, kubeconfig: Path | None, root_key: Callable[[], bytes]) -> KubernetesBackend:
    """Open the namespaces of a site; no request is made. `root_key` seals what the store keeps."""
    return KubernetesBackend(Place(open_api(kubeconfig, site.namespace), site), root_key)
