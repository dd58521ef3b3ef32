"""What the objects of a service are called, and the labels and annotations by which they are found."""

SERVICE_LABEL = "ramet/service"
PROJECT_LABEL = "ramet/project"
SNAPSHOT_LABEL = "ramet/snapshot"
# What is in a snapshot, and where WAL ended when a server was stopped: as JSON.
FACTS_ANNOTATION = "ramet/facts"
# The server runs with the settings of a fork's first start.
FIRST_ANNOTATION = "ramet/first-start"
CLUSTER_LABEL = "cnpg.io/cluster"
ROLE_LABEL = "cnpg.io/instanceRole"
HIBERNATION = "cnpg.io/hibernation"
CONTAINER = "postgres"


def cluster_name(service_id: str) -> str:
    """Return the name of the Cluster of a service, and of the Service that its clients connect to."""
    return f"ramet-{service_id}"


def service_of(object_name: str) -> str:
    """Return the id of the service that an object belongs to, by the object's name."""
    return object_name.removeprefix("ramet-").partition("-")[0]


def volume_name(service_id: str) -> str:
    """Return the name of a service's first volume and instance, as CloudNativePG gives it."""
    return f"{cluster_name(service_id)}-1"


def seed_name(service_id: str) -> str:
    """Return the name of the snapshot that a fork is made from."""
    return f"{cluster_name(service_id)}-seed"


def snapshot_name(service_id: str, snapshot_id: str) -> str:
    """Return the name of a service's snapshot."""
    return f"{cluster_name(service_id)}-{snapshot_id}"


def labels_of(service_id: str) -> dict[str, str]:
    """Return the labels of all that belongs to a service."""
    return {SERVICE_LABEL: service_id}
