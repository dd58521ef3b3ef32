"""Starts and ends the cluster on this machine."""

import contextlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from harness.kubernetes import cgroups, configuration, contents, disk
from harness.kubernetes.layout import (
    API_SERVER,
    HOST_ADDRESS,
    HOST_INTERFACE,
    NETWORK,
    NODE_ADDRESS,
    NODE_INTERFACE,
    NODE_NETWORK_BITS,
    cluster_directory,
    logs,
)
from harness.kubernetes.versions import REPOSITORY, alone, cache_directory, run
from harness.waiting import eventually

Say = Callable[[str], None]
_START_SECONDS = 300


def up(say: Say) -> None:
    """Start the cluster and wait until it takes work. Whatever is left of another one is ended first.

    All parts must have been built.
    """
    with alone("cluster"):
        began = time.monotonic()
        _end()
        shutil.rmtree(cluster_directory(), ignore_errors=True)
        logs().mkdir(parents=True)
        configuration.write()
        cgroups.prepare()
        node = _start_node()
        _connect(node.pid)
        _wait_for_api(node)
        say(f"API server after {time.monotonic() - began:.1f} s")
        contents.install()
        contents.wait_until_ready(lambda what: say(f"{what} after {time.monotonic() - began:.1f} s"))


def down() -> None:
    """End the cluster, or what is left of one: processes, links, cgroups, loop devices and data. Logs stay."""
    with alone("cluster"):
        _end()
        disk.clear()
        for entry in cluster_directory().glob("*"):
            if entry != logs():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def is_up() -> bool:
    """Tell whether a cluster's processes are there."""
    return bool(cgroups.processes())


def enter(words: list[str]) -> list[str]:
    """Return the command that runs `words` inside the cluster's namespaces. Raise RuntimeError without a cluster."""
    for pid in sorted(cgroups.processes()):
        with contextlib.suppress(FileNotFoundError):
            inside = re.search(r"^NSpid:\t(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            if inside and inside[1].split()[1:] == ["1"]:
                return ["nsenter", f"--target={pid}", "--all", f"--wdns={REPOSITORY}", "--", *words]
    raise RuntimeError("no cluster is running; start one with script/kubernetes up")


def _end() -> None:
    cgroups.end_all()
    subprocess.run(["ip", "link", "delete", HOST_INTERFACE], capture_output=True, check=False)
    for image in cache_directory().glob("*.btrfs"):
        for line in run("losetup", "--noheadings", "--output", "NAME", "--associated", str(image)).split():
            run("losetup", "--detach", line)


def _start_node() -> subprocess.Popen[bytes]:
    """Start the first process of the namespaces, in its cgroup from the beginning: so it is found whatever happens."""
    join_and_run = 'echo $$ > "$0" && exec "$@"'
    spaces = ["--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    node = ["unshare", *spaces, "--propagation", "private", sys.executable, "-m", "harness.kubernetes.node"]
    with (logs() / "node.log").open("wb") as log:
        return subprocess.Popen(
            ["sh", "-c", join_and_run, str(cgroups.node() / "cgroup.procs"), *node],
            cwd=REPOSITORY,
            env={**os.environ, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _connect(pid: int) -> None:
    """Give the node a link to this host: the node's addresses, its pods' and its services' are behind it."""
    ours, theirs = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{pid}/ns/net")
    eventually(lambda: theirs.readlink() != ours, "the namespace of the node's network", 0.02)
    run("ip", "link", "add", HOST_INTERFACE, "type", "veth", "peer", "name", NODE_INTERFACE, "netns", str(pid))
    run("ip", "address", "add", f"{HOST_ADDRESS}/{NODE_NETWORK_BITS}", "dev", HOST_INTERFACE)
    run("ip", "link", "set", HOST_INTERFACE, "up")
    run("ip", "route", "add", NETWORK, "via", NODE_ADDRESS)


def _wait_for_api(node: subprocess.Popen[bytes]) -> None:
    verify = str(configuration.credentials() / "api.crt")
    token = (configuration.credentials() / "tokens.csv").read_text().partition(",")[0]

    def ready() -> bool:
        if node.poll() is not None:
            raise RuntimeError(f"the node ended with {node.returncode}:\n{(logs() / 'node.log').read_text()[-2000:]}")
        with contextlib.suppress(httpx.TransportError):
            answer = client.get(f"{API_SERVER}/readyz", headers={"Authorization": f"Bearer {token}"})
            return answer.status_code == httpx.codes.OK
        return False

    with httpx.Client(verify=ssl.create_default_context(cafile=verify), trust_env=False, timeout=5) as client:
        eventually(ready, f"the API server (see {logs()}/apiserver.log)", 0.1, seconds=_START_SECONDS)
