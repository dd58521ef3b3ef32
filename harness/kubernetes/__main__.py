"""The command line of script/kubernetes."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from harness.kubernetes import building, cluster
from harness.kubernetes.layout import S3_BUCKET, S3_ENDPOINT, S3_KEY, S3_SECRET, cluster_directory, kubeconfig, logs
from harness.kubernetes.network import NotAvailable, run_over_network
from harness.kubernetes.versions import REPOSITORY

_USAGE = """usage: script/kubernetes COMMAND

  build          build whatever is not in the cache yet: about 25 minutes on two cores
  up             start a cluster with CloudNativePG; builds first what is missing
  down           end the cluster; nothing of it stays but its logs
  shell [WORDS]  run a shell, or a command, inside the cluster's namespaces
  test [WORDS]   run the tests that need a cluster, or pytest with these arguments; start one if none is running"""
# Where this machine lacks something: EX_UNAVAILABLE of sysexits.h. .ci/run leaves the cluster out then.
NOT_AVAILABLE = 69
_ALL_TESTS = ("--timeout=900", "--durations=15", "tests/kubernetes", "tests/backends/contract")
# Tests wait for pods most of the time: several modules at once. The longest begin first (tests/kubernetes/conftest.py).
_AT_ONCE = ("-n", "3", "--dist", "loadscope", "--no-loadscope-reorder", "--randomly-dont-reorganize")
_ALL = (*_AT_ONCE, *_ALL_TESTS)
# The packages that have each program, by their names on Debian.
_TOOLS: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "mkfs.btrfs": "btrfs-progs",
    "openssl": "openssl",
    "ip": "iproute2",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}


def main(words: list[str]) -> int:
    """Run a command; return its exit status."""
    commands: Mapping[str, Callable[[list[str]], int]] = {
        "build": _build,
        "up": _up,
        "down": _down,
        "shell": _shell,
        "test": _test,
    }
    if not words or words[0] not in commands:
        print(_USAGE)
        return 0 if words in (["--help"], ["-h"]) else 2
    try:
        return commands[words[0]](words[1:])
    except (RuntimeError, TimeoutError) as error:
        print(f"script/kubernetes: {error}", file=sys.stderr)
        return NOT_AVAILABLE if isinstance(error, NotAvailable) else 1


def _build(_: list[str]) -> int:
    _require()
    building.build(_say)
    return 0


def _up(_: list[str]) -> int:
    _build([])
    cluster.up(_say)
    print(
        f"""The cluster is up. Its API server, its pods and its services can be reached from this machine.

  kubectl: {cluster_directory()}/kubectl
  KUBECONFIG={kubeconfig()}
  S3: {S3_ENDPOINT}, bucket {S3_BUCKET}, key {S3_KEY}, secret {S3_SECRET}
  logs: {logs()}
  script/kubernetes down ends it"""
    )
    return 0


def _down(_: list[str]) -> int:
    _require_root()
    cluster.down()
    return 0


def _shell(words: list[str]) -> int:
    _require_root()
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig()),
        "PATH": f"{cluster_directory()}:{os.environ['PATH']}",
    }
    return subprocess.run(cluster.enter(words or ["bash"]), env=environment, check=False).returncode


def _test(words: list[str]) -> int:
    _require_root()
    started = not cluster.is_up()
    if started:
        _build([])
    try:
        if started:
            _up([])
        status = _run_tests(["-n", "0", *words] if words else _ALL)
        if status == 1 and not words:
            _say("the failed tests, once more and alone; one that passes now is unsteady and must be corrected")
            status = _run_tests(("-n", "0", "--last-failed", "--last-failed-no-failures=none", *_ALL_TESTS))
        return status
    finally:
        if started:
            _down([])


def _run_tests(words: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-m", "kubernetes", *words]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig()), "RAMET_TEST_KUBERNETES": _extent()}
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


def _extent() -> str:
    """Return which tests are run: `all` has those whose subject others show, too."""
    return "all" if os.environ.get("RAMET_TEST_KUBERNETES") == "all" else "yes"


def _require() -> None:
    _require_root()
    _install_packages()
    if building.missing() and shutil.which("go") is None:
        raise NotAvailable(
            "Go is needed to build Kubernetes and CloudNativePG; install Go 1.26 or newer, and run this again"
        )


def _require_root() -> None:
    if os.geteuid() != 0:
        raise NotAvailable("root is needed: a cluster makes mounts, cgroups and network links; run this again as root")


def _install_packages() -> None:
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise NotAvailable(f"these packages are missing: {', '.join(missing)}; install them, and run this again")
    _say(f"installing {', '.join(missing)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update", "--quiet"), ("install", "--yes", "--no-install-recommends", *missing)):
        run_over_network("Debian's packages", "apt-get", *words, env=quiet)


def _say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
