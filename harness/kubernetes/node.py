"""The first process of the cluster's namespaces: it prepares the node, and restarts each component that ends.

All processes of the cluster end with it.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.kubernetes import containerd, disk
from harness.kubernetes.components import Component, components
from harness.kubernetes.configuration import RUNTIME_STATE, network
from harness.kubernetes.layout import (
    HOST_ADDRESS,
    NODE,
    NODE_ADDRESS,
    NODE_INTERFACE,
    NODE_NETWORK_BITS,
    disk_image,
    logs,
)
from harness.kubernetes.versions import run
from harness.waiting import eventually

_RESTART_SECONDS = 1.0
_LOOK_SECONDS = 0.1
# The kubelet sets these for the whole machine. Here it finds files with its values in their place.
_SYSCTLS: Mapping[str, int] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def main() -> None:
    """Prepare the node, then keep its components running until this process is killed."""
    socket.sethostname(NODE)
    data = _prepare_files()
    _prepare_network()
    _supervise(components(data))


def _prepare_files() -> Path:
    run("mount", "--make-rshared", "/")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name, value in _SYSCTLS.items():
        file = Path("/run/sysctl") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        run("mount", "--bind", str(file), f"/proc/sys/{name}")
    disk.mount(disk_image())
    data = disk.start_over()
    # What containerd, the kubelet and the network plugins write below /var stays on the node's disk.
    for name in ("var", "var-work", "etcd", "kubelet/plugins_registry", "pool"):
        (data / name).mkdir(parents=True)
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/var,upperdir={data}/var,workdir={data}/var-work", "/var")
    Path("/run/lock").mkdir()
    containerd.configure(data / "containerd", RUNTIME_STATE)
    (RUNTIME_STATE / "cni").mkdir()
    (RUNTIME_STATE / "cni/10-ramet.conflist").write_text(json.dumps(network(RUNTIME_STATE)))
    return data


def _prepare_network() -> None:
    run("ip", "link", "set", "lo", "up")
    eventually(lambda: NODE_INTERFACE in {name for _, name in socket.if_nameindex()}, "the link to the host", 0.02)
    run("ip", "address", "add", f"{NODE_ADDRESS}/{NODE_NETWORK_BITS}", "dev", NODE_INTERFACE)
    run("ip", "link", "set", NODE_INTERFACE, "up")
    run("ip", "route", "add", "default", "via", HOST_ADDRESS)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def _supervise(wanted: Sequence[Component]) -> None:
    running: dict[int, Component] = {}
    due = dict.fromkeys(wanted, 0.0)
    while True:
        now = time.monotonic()
        for component in [one for one, when in due.items() if when <= now]:
            del due[component]
            running[_start(component)] = component
        pid, status = os.waitpid(-1, os.WNOHANG)
        ended = running.pop(pid, None)
        if ended is not None:
            _say(ended, f"ended with {os.waitstatus_to_exitcode(status)}")
            due[ended] = time.monotonic() + _RESTART_SECONDS
        if pid == 0:
            time.sleep(_LOOK_SECONDS)


def _start(component: Component) -> int:
    with (logs() / f"{component.name}.log").open("ab") as log:
        started = subprocess.Popen(component.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    # This process waits for its children itself, the orphans of the containers among them.
    started.returncode = 0
    _say(component, f"started as process {started.pid}")
    return started.pid


def _say(component: Component, event: str) -> None:
    print(f"{time.time():.1f} {component.name} {event}", flush=True)


if __name__ == "__main__":
    main()
