"""The cgroups of the cluster, by which all of its processes are found, even if what started them was killed."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from harness.kubernetes.layout import CGROUP
from harness.waiting import eventually

_ROOT = Path("/sys/fs/cgroup")
_UNIFIED = _ROOT / "cgroup.controllers"
# All pods together have the share of this many of the machine's other groups: with one they starve on a busy machine.
_SHARES = 8


def prepare() -> None:
    """Make the cgroup of the pods in each hierarchy, and the one of the node's own processes."""
    if _UNIFIED.exists():
        _prepare_unified()
    else:
        _prepare_hierarchies()
    node().mkdir(exist_ok=True)


def node() -> Path:
    """Return the cgroup that the node's own processes are in."""
    return _ROOT / CGROUP / "node" if _UNIFIED.exists() else _ROOT / "pids" / CGROUP / "node"


def end_all() -> None:
    """Kill all processes of the cluster and wait until they are gone; then remove its cgroups."""
    eventually(_none_left, "the end of the cluster's processes", 0.05)
    eventually(_removed, "the end of the cluster's cgroups", 0.05)


def processes() -> set[int]:
    """Return the processes of the cluster."""
    found: set[int] = set()
    for cgroup in _of_the_cluster():
        for directory, _, _ in os.walk(cgroup):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in (Path(directory) / "cgroup.procs").read_text().split()}
    return found


def _none_left() -> bool:
    left = processes() - {0}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not left


def _removed() -> bool:
    # A cgroup can be busy for a moment after its last process has ended.
    for cgroup in _of_the_cluster():
        for directory, _, _ in os.walk(cgroup, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
    return not any(True for _ in _of_the_cluster())


def _of_the_cluster() -> Iterator[Path]:
    for candidate in (_ROOT / CGROUP, *_ROOT.glob(f"*/{CGROUP}")):
        if (candidate / "cgroup.procs").exists():
            yield candidate


def _prepare_hierarchies() -> None:
    for hierarchy in _ROOT.iterdir():
        if not (hierarchy / "cgroup.procs").exists() or hierarchy.is_symlink():
            continue
        cgroup = hierarchy / CGROUP
        cgroup.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / setting).exists():
                (cgroup / setting).write_text((hierarchy / setting).read_text())
        if (cgroup / "cpu.shares").exists():
            (cgroup / "cpu.shares").write_text(str(_SHARES * 1024))


def _prepare_unified() -> None:
    (_ROOT / CGROUP).mkdir(exist_ok=True)
    for parent in (_ROOT, _ROOT / CGROUP):
        enabled = " ".join(f"+{name}" for name in (parent / "cgroup.controllers").read_text().split())
        (parent / "cgroup.subtree_control").write_text(enabled)
    if (weight := _ROOT / CGROUP / "cpu.weight").exists():
        weight.write_text(str(_SHARES * 100))
