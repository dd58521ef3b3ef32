"""Where the parts of the cluster are: files of the running cluster, its addresses, its names."""

from pathlib import Path

from harness.kubernetes.images import images_digest
from harness.kubernetes.versions import cache_directory

NODE = "ramet"
# Addresses of a network for tests of devices (RFC 2544), which no machine of a network uses.
NODE_ADDRESS = "198.18.0.1"
HOST_ADDRESS = "198.18.0.254"
NETWORK = "198.18.0.0/16"
NODE_NETWORK_BITS = 24
PODS = "198.18.1.0/24"
SERVICES = "198.18.2.0/24"
API_SERVICE_ADDRESS = "198.18.2.1"
DNS_ADDRESS = "198.18.2.10"
API_SERVER = f"https://{NODE_ADDRESS}:6443"
HOST_INTERFACE = "ramet-k8s"
NODE_INTERFACE = "uplink"
CGROUP = "ramet-k8s"

DRIVER = "btrfs.csi.ramet.test"
S3_PORT = 9000
S3_ENDPOINT = f"http://{NODE_ADDRESS}:{S3_PORT}"
S3_BUCKET = "ramet"
S3_KEY, S3_SECRET = "ramet-key", "ramet-secret"


def cluster_directory() -> Path:
    """Return the directory of the running cluster; it goes when the cluster goes, except for its logs."""
    return cache_directory() / "cluster"


def kubeconfig() -> Path:
    """Return the file with the address and the credentials of an administrator."""
    return cluster_directory() / "kubeconfig"


def logs() -> Path:
    """Return the directory with a log of each component."""
    return cluster_directory() / "logs"


def disk_image() -> Path:
    """Return the file with the node's disk, a btrfs that holds the unpacked images before the cluster starts."""
    return cache_directory() / f"disk-{images_digest()}.btrfs"


def disk() -> Path:
    """Return where the node's disk is mounted, for the cluster's own processes alone."""
    return cluster_directory() / "disk"
