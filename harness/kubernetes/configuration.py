"""What the components read at their start: credentials, and a configuration file for each that wants one."""

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.kubernetes.certificates import self_signed
from harness.kubernetes.layout import (
    API_SERVER,
    API_SERVICE_ADDRESS,
    DNS_ADDRESS,
    NODE,
    NODE_ADDRESS,
    PODS,
    cluster_directory,
    kubeconfig,
)
from harness.kubernetes.programs import KUBE
from harness.kubernetes.versions import run

_USERS: Mapping[str, tuple[str, str]] = {
    "admin": ("admin", "system:masters"),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}
_API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


def credentials() -> Path:
    """Return the directory of keys, tokens and kubeconfigs."""
    return cluster_directory() / "credentials"


def write() -> None:
    """Write new credentials, and the configuration of each component."""
    _write_credentials()
    _write_json("kubelet.json", {**_KUBELET, **_kubelet_paths()})
    _write_json("proxy.json", {**_PROXY, "clientConnection": {"kubeconfig": str(credentials() / "proxy.kubeconfig")}})
    kubectl = cluster_directory() / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {KUBE.path} ctl --kubeconfig={kubeconfig()} "$@"\n')
    kubectl.chmod(0o755)
    (cluster_directory() / "resolv.conf").write_text(f"nameserver {DNS_ADDRESS}\n")


def network(state: Path) -> Mapping[str, Any]:
    """Return the network of the pods: each has a link of its own to the node, which routes whatever it sends."""
    addresses = {
        "type": "host-local",
        "dataDir": str(state / "addresses"),
        "ranges": [[{"subnet": PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": "ramet", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}


def _write_credentials() -> None:
    directory = credentials()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = self_signed("kube-apiserver", [NODE_ADDRESS, API_SERVICE_ADDRESS, "127.0.0.1", *_API_NAMES])
    (directory / "api.crt").write_bytes(server.certificate)
    (directory / "api.key").write_bytes(server.key)
    run("openssl", "genrsa", "-out", str(directory / "accounts.key"), "2048")
    tokens = {name: secrets.token_hex(16) for name in _USERS}
    lines = [f'{tokens[name]},{user},{name},"{group}"' for name, (user, group) in _USERS.items()]
    (directory / "tokens.csv").write_text("\n".join(lines) + "\n")
    for name, token in tokens.items():
        (directory / f"{name}.kubeconfig").write_text(json.dumps(_kubeconfig(server.certificate.decode(), token)))
    kubeconfig().write_text(json.dumps(_kubeconfig(server.certificate.decode(), tokens["admin"]), indent=2))
    kubeconfig().chmod(0o600)


def _kubeconfig(certificate: str, token: str) -> Mapping[str, Any]:
    authority = base64.b64encode(certificate.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ramet",
        "clusters": [{"name": "ramet", "cluster": {"server": API_SERVER, "certificate-authority-data": authority}}],
        "users": [{"name": "ramet", "user": {"token": token}}],
        "contexts": [{"name": "ramet", "context": {"cluster": "ramet", "user": "ramet"}}],
    }


def _write_json(name: str, content: Mapping[str, Any]) -> None:
    (cluster_directory() / name).write_text(json.dumps(content, indent=2))


def _kubelet_paths() -> Mapping[str, Any]:
    return {
        "containerRuntimeEndpoint": f"unix://{RUNTIME_STATE}/containerd.sock",
        "resolvConf": str(cluster_directory() / "resolv.conf"),
    }


# Where the node keeps sockets and the like: a file system in memory, which only the cluster's processes see.
RUNTIME_STATE = Path("/run/ramet-k8s")

_KUBELET: Mapping[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": "/ramet-k8s",
    "failCgroupV1": False,
    "failSwapOn": False,
    "clusterDNS": [DNS_ADDRESS],
    "clusterDomain": "cluster.local",
    "oomScoreAdj": 0,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
    "imageGCHighThresholdPercent": 100,
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "maxPods": 100,
    "serializeImagePulls": False,
    "shutdownGracePeriod": "0s",
    "syncFrequency": "10s",
}
_PROXY: Mapping[str, Any] = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "mode": "nftables",
    "clusterCIDR": PODS,
    "hostnameOverride": NODE,
    "conntrack": {"maxPerCore": 0},
    "healthzBindAddress": "127.0.0.1:10256",
    "metricsBindAddress": "127.0.0.1:10249",
}
