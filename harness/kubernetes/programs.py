"""The programs of the cluster, each built once with Go, in an order that makes the best use of Go's build cache."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.kubernetes.go_modules import Module, go, write_requirements
from harness.kubernetes.versions import (
    BARMAN_PLUGIN,
    CLOUDNATIVE_PG,
    CSI_PROVISIONER,
    CSI_SNAPSHOTTER,
    HELM_VERSION,
    KUBERNETES,
    SOURCES,
    cache_directory,
    digest,
)

_MAJOR, _MINOR, _ = KUBERNETES.split(".")
KUBERNETES_MODULE = Module("k8s.io/kubernetes", KUBERNETES, staging=f"0.{KUBERNETES.removeprefix('1.')}")
OPERATOR_MODULE = Module("github.com/cloudnative-pg/cloudnative-pg", CLOUDNATIVE_PG)
SNAPSHOTTER_MODULE = Module("github.com/kubernetes-csi/external-snapshotter/v8", CSI_SNAPSHOTTER)
# The plugin requires versions of two modules that the module proxy does not have; these are the nearest that it has.
PLUGIN_MODULE = Module(
    "github.com/cloudnative-pg/plugin-barman-cloud",
    BARMAN_PLUGIN,
    replace={
        "github.com/cloudnative-pg/machinery": "0.5.0",
        "github.com/cloudnative-pg/barman-cloud": "0.5.2-0.20260720143032-950b0f57e122",
    },
)
PROVISIONER_MODULE = Module("github.com/kubernetes-csi/external-provisioner/v5", CSI_PROVISIONER)


@dataclass(frozen=True)
class Program:
    """A program: the module whose requirements it is built with, its package, and the variables that are set in it.

    A package that begins with "./" is ours, below script/lib/kubernetes/go.
    """

    name: str
    module: Module
    package: str
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where the program is, once it was built."""
        sources = tuple(sorted((SOURCES / "go" / self.package).glob("*.go"))) if self.package.startswith("./") else ()
        parts = (self.module.path, self.module.version, *self.module.replace.values(), *self.variables.values())
        return cache_directory() / "programs" / digest(self.name, *parts, files=sources) / self.name

    def build(self) -> None:
        """Build the program in a module of its own."""
        workspace = cache_directory() / "work" / self.module.path.replace("/", "_")
        shutil.rmtree(workspace, ignore_errors=True)
        shutil.copytree(SOURCES / "go", workspace)
        write_requirements(self.module, workspace)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_name(f"half-{self.name}-{os.getpid()}")
        flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in self.variables.items())])
        go("build", "-trimpath", "-ldflags", flags, "-o", str(half), self.package, directory=workspace)
        half.rename(self.path)


_KUBERNETES_VERSION = {
    f"{package}.{name}": value
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name, value in {
        "gitVersion": f"v{KUBERNETES}",
        "gitMajor": _MAJOR,
        "gitMinor": _MINOR,
        "gitTreeState": "clean",
    }.items()
}

KUBE = Program("kube", KUBERNETES_MODULE, "./cmd/kube", _KUBERNETES_VERSION)
ETCD = Program("etcd", KUBERNETES_MODULE, "./cmd/etcd")
PAUSE = Program("pause", KUBERNETES_MODULE, "./cmd/pause")
CSI_BTRFS = Program("csi-btrfs", KUBERNETES_MODULE, "./cmd/csi-btrfs")
NETWORK_POLICY = Program("network-policy", KUBERNETES_MODULE, "./cmd/network-policy")
CLUSTER_DNS = Program("cluster-dns", KUBERNETES_MODULE, "./cmd/cluster-dns")
PROVISIONER = Program("csi-provisioner", PROVISIONER_MODULE, f"{PROVISIONER_MODULE.path}/cmd/csi-provisioner")
RESIZER = Program("volume-resizer", KUBERNETES_MODULE, "./cmd/volume-resizer")
SNAPSHOT_CONTROLLER = Program(
    "snapshot-controller", SNAPSHOTTER_MODULE, f"{SNAPSHOTTER_MODULE.path}/cmd/snapshot-controller"
)
SNAPSHOTTER = Program("csi-snapshotter", SNAPSHOTTER_MODULE, f"{SNAPSHOTTER_MODULE.path}/cmd/csi-snapshotter")
OPERATOR = Program(
    "manager",
    OPERATOR_MODULE,
    f"{OPERATOR_MODULE.path}/cmd/manager",
    {f"{OPERATOR_MODULE.path}/pkg/versions.buildVersion": CLOUDNATIVE_PG},
)
HELM = Program("helm", Module("helm.sh/helm/v3", HELM_VERSION), "helm.sh/helm/v3/cmd/helm")
BARMAN = Program("barman-plugin", PLUGIN_MODULE, f"{PLUGIN_MODULE.path}/cmd/manager")

PROGRAMS = (
    KUBE,
    ETCD,
    PAUSE,
    CSI_BTRFS,
    CLUSTER_DNS,
    NETWORK_POLICY,
    RESIZER,
    PROVISIONER,
    OPERATOR,
    SNAPSHOT_CONTROLLER,
    SNAPSHOTTER,
    BARMAN,
    HELM,
)
