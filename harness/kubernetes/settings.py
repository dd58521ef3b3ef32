"""The settings of a Ramet whose services are in this cluster."""

import secrets

from harness.kubernetes.layout import NODE_ADDRESS, S3_BUCKET, S3_ENDPOINT, S3_KEY, S3_SECRET, kubeconfig
from harness.kubernetes.node_ports import node_ports

_PORTS = 100


def settings_of(namespace: str) -> dict[str, str]:
    """Return the variables of a Ramet with its services in a namespace."""
    return {
        "RAMET_BACKEND": "kubernetes",
        "RAMET_KUBECONFIG": str(kubeconfig()),
        "RAMET_KUBERNETES_NAMESPACE": namespace,
        "RAMET_KUBERNETES_IMAGE": "ramet.test/postgresql:{major}",
        "RAMET_KUBERNETES_MAJORS": "15",
        "RAMET_KUBERNETES_POOLER_IMAGE": "ramet.test/pgbouncer:1.24",
        "RAMET_KUBERNETES_VOLUME_GBS": "1",
        "RAMET_KUBERNETES_ENDPOINTS": "nodeport",
        "RAMET_ENDPOINT_HOST": NODE_ADDRESS,
        "RAMET_FORK_REST_SECONDS": "0",
    }


def archive_settings(name: str) -> dict[str, str]:
    """Return the variables of an archive below a name in the S3 server of the cluster."""
    return {
        "RAMET_ARCHIVE_URL": f"s3://{S3_BUCKET}/{name}",
        "AWS_ENDPOINT_URL": S3_ENDPOINT,
        "AWS_ACCESS_KEY_ID": S3_KEY,
        "AWS_SECRET_ACCESS_KEY": S3_SECRET,
        "AWS_REGION": "us-east-1",
    }


def some_ports() -> range:
    """Return ports of the node for one Ramet."""
    own = node_ports()
    first = own.start + secrets.randbelow(len(own) - _PORTS)
    return range(first, first + _PORTS)
