"""The processes of the node, and how each is started."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.kubernetes import programs
from harness.kubernetes.configuration import RUNTIME_STATE, credentials
from harness.kubernetes.layout import (
    DRIVER,
    NODE,
    NODE_ADDRESS,
    PODS,
    S3_PORT,
    SERVICES,
    cluster_directory,
    kubeconfig,
)

# By default these make five requests a second: a snapshot after others takes more than a second longer.
_BUSY = ("--kube-api-qps=50", "--kube-api-burst=100")


@dataclass(frozen=True)
class Component:
    """A process that runs as long as the node; it is started again when it ends."""

    name: str
    words: tuple[str, ...]


def components(data: Path) -> Sequence[Component]:
    """Return the processes of a node whose data are in this directory."""
    return [*_control_plane(data), *_node(data), *_storage(data), *_helpers()]


def _kube(name: str, *options: str) -> Component:
    return Component(name, (str(programs.KUBE.path), name, *options))


def _control_plane(data: Path) -> Sequence[Component]:
    keys = credentials()
    etcd = "http://127.0.0.1:2379"
    return [
        Component(
            "etcd",
            (
                str(programs.ETCD.path),
                f"--data-dir={data}/etcd",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                "--listen-peer-urls=http://127.0.0.1:2380",
                # The cluster ends with the machine: nothing has to be there after a power cut.
                "--unsafe-no-fsync",
                "--log-level=warn",
            ),
        ),
        _kube(
            "apiserver",
            f"--etcd-servers={etcd}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--advertise-address={NODE_ADDRESS}",
            "--secure-port=6443",
            f"--tls-cert-file={keys}/api.crt",
            f"--tls-private-key-file={keys}/api.key",
            f"--token-auth-file={keys}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}/accounts.key",
            f"--service-account-signing-key-file={keys}/accounts.key",
            # Webhooks are services, which this host reaches by their pods' addresses.
            "--enable-aggregator-routing=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
        ),
        _kube(
            "controller-manager",
            f"--kubeconfig={keys}/controller-manager.kubeconfig",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={keys}/accounts.key",
            f"--root-ca-file={keys}/api.crt",
            "--leader-elect=false",
            "--allocate-node-cidrs=false",
        ),
        _kube("scheduler", f"--kubeconfig={keys}/scheduler.kubeconfig", "--leader-elect=false"),
    ]


def _node(data: Path) -> Sequence[Component]:
    directory = cluster_directory()
    return [
        Component("containerd", ("containerd", f"--config={RUNTIME_STATE}/containerd.toml")),
        _kube(
            "kubelet",
            f"--config={directory}/kubelet.json",
            f"--kubeconfig={credentials()}/kubelet.kubeconfig",
            f"--root-dir={data}/kubelet",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
        ),
        _kube("proxy", f"--config={directory}/proxy.json"),
    ]


def _storage(data: Path) -> Sequence[Component]:
    socket = data / f"kubelet/plugins/{DRIVER}/csi.sock"
    administrator = f"--kubeconfig={kubeconfig()}"
    return [
        Component(
            "csi-btrfs",
            (
                str(programs.CSI_BTRFS.path),
                f"-root={data}/pool",
                f"-socket={socket}",
                f"-registry={data}/kubelet/plugins_registry/{DRIVER}-reg.sock",
                f"-node={NODE}",
            ),
        ),
        Component(
            "csi-provisioner",
            (str(programs.PROVISIONER.path), administrator, f"--csi-address={socket}", "--default-fstype=", "--v=2"),
        ),
        Component("snapshot-controller", (str(programs.SNAPSHOT_CONTROLLER.path), administrator, *_BUSY, "--v=2")),
        Component(
            "csi-snapshotter",
            (
                str(programs.SNAPSHOTTER.path),
                administrator,
                *_BUSY,
                f"--csi-address={socket}",
                "--v=2",
                "--snapshot-name-uuid-length=-1",
            ),
        ),
        Component("volume-resizer", (str(programs.RESIZER.path), f"-kubeconfig={kubeconfig()}")),
    ]


def _helpers() -> Sequence[Component]:
    return [
        Component(
            "cluster-dns", (str(programs.CLUSTER_DNS.path), f"-kubeconfig={kubeconfig()}", f"-listen={NODE_ADDRESS}:53")
        ),
        Component(
            "network-policy",
            (
                str(programs.NETWORK_POLICY.path),
                f"-kubeconfig={kubeconfig()}",
                f"-pods={PODS}",
                f"-name-server={NODE_ADDRESS}",
            ),
        ),
        Component("s3", (sys.executable, "-m", "moto.server", "-H", NODE_ADDRESS, "-p", str(S3_PORT))),
    ]
