"""What the objects of a service are called, and the labels and annotations by which they are found."""

from ramet.endpoints import own_name

SERVICE_LABEL = "ramet/service"
PROJECT_LABEL = "ramet/project"
SNAPSHOT_LABEL = "ramet/snapshot"
# What is in a snapshot, and where WAL ended when a server was stopped: as JSON.
FACTS_ANNOTATION = "ramet/facts"
# Where WAL was before a snapshot was asked for: as JSON.
BEGUN_ANNOTATION = "ramet/begun"
# What a fork that the operator recovers begins with: as JSON.
CAPTURE_ANNOTATION = "ramet/capture"
# The last segment with WAL of a stopped server, once that was read in its volume.
LAST_SEGMENT_ANNOTATION = "ramet/last-segment"
# How far the WAL of a service was read back in the archive, and what was found: as JSON.
CHECKED_ANNOTATION = "ramet/checked"
# The server runs with the settings of a fork's first start.
FIRST_ANNOTATION = "ramet/first-start"
# Settings that are not smaller than those of the server that a service's data comes from: as JSON.
LEAST_ANNOTATION = "ramet/at-least"
# Changes where nothing else does, so that the operator looks at a Cluster.
CHANGED_ANNOTATION = "ramet/changed"
# Whether another Ramet may stream from the server.
COPY_ANNOTATION = "ramet/copied"
# The digest of the certificate that the pods of a pooler have.
CERTIFICATE_ANNOTATION = "ramet/certificate"
# The pods of a pooler, with the id of the service or read replica set that it is of.
POOLER_LABEL = "ramet/pooler"
# The servers of a read replica set.
SET_LABEL = "ramet/replica-set"
# The pods that read the volume of a stopped server, with the id of its service.
VOLUME_LABEL = "ramet/volume"
CLUSTER_LABEL = "cnpg.io/cluster"
ROLE_LABEL = "cnpg.io/instanceRole"
POD_LABEL = "cnpg.io/podRole"
HIBERNATION = "cnpg.io/hibernation"
CONTAINER = "postgres"
# Where its pods have the volume of a server.
DATA_DIRECTORY = "/var/lib/postgresql/data"
JOB_LABEL = "cnpg.io/jobRole"
SNAPSHOT_GROUP = "snapshot.storage.k8s.io"
# The object store of a namespace, and the Secret with its keys.
ARCHIVE = "ramet-archive"
# What a fork calls the cluster that its data comes from.
ORIGIN = "origin"


def cluster_name(service_id: str) -> str:
    """Return the name of the Cluster of a service, and of the Service that its clients connect to."""
    return own_name(service_id)


def service_of(object_name: str) -> str:
    """Return the id of the service that an object belongs to, by the object's name."""
    return object_name.removeprefix("ramet-").partition("-")[0]


def volume_name(service_id: str) -> str:
    """Return the name of a service's first volume and instance, as CloudNativePG gives it."""
    return f"{cluster_name(service_id)}-1"


def writing_name(service_id: str) -> str:
    """Return the name of the Service of CloudNativePG that leads to the primary, inside of the namespace."""
    return f"{cluster_name(service_id)}-rw"


def authority_name(service_id: str) -> str:
    """Return the name of the Secret with the certificate authority of a service."""
    return f"{cluster_name(service_id)}-ca"


def client_certificate_name(service_id: str) -> str:
    """Return the name of the Secret with the certificate of CloudNativePG's replication role."""
    return f"{cluster_name(service_id)}-replication"


def server_certificate_name(service_id: str) -> str:
    """Return the name of the Secret with the certificate of a service's endpoint."""
    return f"{cluster_name(service_id)}-server"


def pooler_name(owner_id: str) -> str:
    """Return the name of all objects of the pooler of a service or read replica set."""
    return f"{cluster_name(owner_id)}-pooler"


def source_name(service_id: str) -> str:
    """Return the name of the Secret by which a service streams from its source."""
    return f"{cluster_name(service_id)}-source"


def policy_name(service_id: str) -> str:
    """Return the name of the policy that keeps a fork from connecting to other systems."""
    return f"{cluster_name(service_id)}-egress"


def seed_name(service_id: str) -> str:
    """Return the name of the snapshot that a fork is made from."""
    return f"{cluster_name(service_id)}-seed"


def snapshot_name(service_id: str, snapshot_id: str) -> str:
    """Return the name of a service's snapshot."""
    return f"{cluster_name(service_id)}-{snapshot_id}"


def reader_name(service_id: str) -> str:
    """Return the name of the pod in which the WAL for a fork is read, and of what is noted of that."""
    return f"{cluster_name(service_id)}-wal"


def volume_reader_name(reader_id: str, mark: str) -> str:
    """Return the name of a pod in which a stopped server's volume is read once, for its service or a fork of that."""
    return f"{cluster_name(reader_id)}-volume-{mark}"


def backup_name(service_id: str, mark: str) -> str:
    """Return the name of an object that asks for a base backup."""
    return f"{cluster_name(service_id)}-base-{mark}"


def labels_of(service_id: str) -> dict[str, str]:
    """Return the labels of all that belongs to a service."""
    return {SERVICE_LABEL: service_id}
