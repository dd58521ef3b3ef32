"""The cluster as a whole: its capacity, versions and storage, and what is measured and logged there."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightkube.utils.quantity import parse_quantity

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import doctor, logs, names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Node
from ramet.backends.kubernetes.site import GIB, Exposure
from ramet.errors import Failed, Invalid, Unavailable
from ramet.machine.installation import extension_of
from ramet.model.logs import LogPage, LogQuery
from ramet.model.service_type import ServiceType
from ramet.model.size import PUBLIC_SIZES, Size

_SAMPLE_SECONDS = 25.0  # less than between two samples, which must differ


@dataclass(frozen=True)
class KubernetesHost:
    """A cluster; obeys ramet.backends.interface.host.Host."""

    place: Place

    def size(self) -> Size:
        """Return what the largest node has for pods; the largest usual size where nodes cannot be read."""
        try:
            nodes = self.place.api.find_global(Node)
        except Failed:
            return Size(*PUBLIC_SIZES[-1])
        found = [_size_of(node) for node in nodes] or [Size(*PUBLIC_SIZES[-1])]
        return max(found, key=lambda size: (size.memory_gbs or 0, size.cpu_millis or 0))

    def default_pg_major(self, service_type: ServiceType) -> int:
        return self.place.site.majors[0]

    def has_tls(self, pg_major: int) -> bool:
        """Have it always: the operator issues the certificates."""
        return True

    def address(self, service_id: str, project_id: str, host: str) -> str:
        """Return the name of the service's own Service; that of the nodes for ports of nodes."""
        name = names.cluster_name(service_id)
        own = {
            Exposure.CLUSTER: f"{name}.{self.place.api.namespaces.of_project(project_id)}.svc",
            Exposure.LOADBALANCER: f"{name}.{host}",
            Exposure.NODEPORT: host,
        }
        return own[self.place.site.exposure]

    def volume_type(self) -> str:
        """Return the storage class."""
        return self.place.site.storage_class or "default"

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        extension = extension_of(service_type)
        if extension is not None and extension not in self.place.site.extensions:
            raise Invalid(
                "EXTENSION_MISSING",
                f"service_type {service_type} needs the extension {extension}, which the images are not known to have",
                "Set RAMET_KUBERNETES_IMAGE to images that have it, and name it in RAMET_KUBERNETES_EXTENSIONS.",
            )

    def check_room(self) -> None:
        """Leave it to the storage, which makes a volume or says why not."""

    def port_is_free(self, port: int) -> bool:
        """Leave it to the Service: each has an address of its own, and node ports are refused when they are taken."""
        return True

    def describe(self) -> Sequence[tuple[str, str]]:
        return doctor.examine(self.place)

    def storage_pressure(self, server: Server | None, *, lasting: bool) -> str | None:
        """Never press: volumes are not shared."""
        return None

    def discard_free_blocks(self) -> None:
        """Leave it to the storage driver."""

    def disk_usage(self, service_id: str) -> int | None:
        """Not know it: only the storage driver knows which blocks are shared."""
        return None

    def measure(self, server: Server) -> dict[str, float] | None:
        try:
            return dict(self.place.reports.of(server.service_id, _SAMPLE_SECONDS).values)
        except Unavailable:
            return None

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        return logs.read_log(self.place, server, query)

    def stop_all(self) -> None:
        """Leave the services to the cluster, which runs them without this process."""


def _size_of(node: Node) -> Size:
    allocatable = node.status.allocatable
    cpu = parse_quantity(allocatable.get("cpu", "0")) or 0
    memory = parse_quantity(allocatable.get("memory", "0")) or 0
    return Size(int(cpu * 1000), max(1, int(memory) // GIB))
