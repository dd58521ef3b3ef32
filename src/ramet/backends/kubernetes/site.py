"""What is set about the cluster: where services go, what they are made of, and how clients reach them."""

from dataclasses import dataclass
from enum import StrEnum

from ramet.backends.kubernetes.store_access import StoreAccess

GIB = 1024**3
# The release of CloudNativePG that this backend was measured with: adopting a volume relies on its code.
OPERATOR = "1.30"


class Exposure(StrEnum):
    """How clients reach services: inside of the cluster, by a port of every node, or by a load balancer for each."""

    CLUSTER = "cluster"
    NODEPORT = "nodeport"
    LOADBALANCER = "loadbalancer"


class Forks(StrEnum):
    """How a fork of now begins.

    The operator adopts a volume that is made of a snapshot, or recovers from the snapshot by a job of its own, or
    copies the running server by pg_basebackup, where the storage takes no snapshots.
    """

    ADOPT = "adopt"
    RECOVER = "recover"
    COPY = "copy"


@dataclass(frozen=True)
class Site:
    """The place of all services. Empty classes are the cluster's defaults; `{major}` in `image` is the version.

    `extensions` are those that the image has beside PostgreSQL's own. `fork_egress` is what DEV forks may connect to:
    allow, deny, or networks. `archive` is where WAL and base backups go.
    """

    namespace: str
    image: str = "ghcr.io/cloudnative-pg/postgresql:{major}"
    majors: tuple[int, ...] = (18, 17, 16, 15)
    storage_class: str = ""
    snapshot_class: str = ""
    volume_gbs: int = 10
    exposure: Exposure = Exposure.CLUSTER
    extensions: tuple[str, ...] = ()
    pooler_image: str = "ghcr.io/cloudnative-pg/pgbouncer:1.25.1"
    fork_egress: str = "allow"
    archive: StoreAccess | None = None
    forks: Forks = Forks.ADOPT

    def image_of(self, pg_major: int) -> str:
        """Return the image of a PostgreSQL version."""
        return self.image.replace("{major}", str(pg_major))
