"""What the kernel lets this process and its servers have, and how much of that is in use."""

import functools
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ramet.machine.processes import recorded_in

# Larger values are how cgroups version 1 says that there is no limit.
_ENDLESS = 2**62


@dataclass(frozen=True)
class Amount:
    """Of `most`, `used` are in use; `source` says what sets it."""

    most: int
    used: int
    source: str

    @property
    def left(self) -> int:
        """What is left."""
        return max(0, self.most - self.used)


@dataclass(frozen=True)
class Kernel:
    """The kernel's files, which tests put elsewhere.

    `worker` records the process that starts the servers, which its limits hold for, if that is not this one.
    """

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    shared_memory: Path = Path("/dev/shm")  # noqa: S108 - where PostgreSQL has its dynamic shared memory
    worker: Path | None = None

    def memory(self) -> Amount:
        """Return the memory in bytes: that of the host, or of a container that may have less."""
        host = psutil.virtual_memory()
        found = [Amount(host.total, host.total - host.available, "the memory of the host")]
        for group in self._groups("memory"):
            most = _number(group, "memory.max", "memory.limit_in_bytes")
            if most is None or most >= host.total:
                continue
            # Only now: the kernel adds up what is in use when it is asked.
            used = _number(group, "memory.current", "memory.usage_in_bytes")
            if used is not None:
                found.append(Amount(most, max(0, used - _page_cache(group)), f"the memory limit of cgroup {group}"))
        return min(found, key=lambda one: one.left)

    def processes(self, uid: int) -> Amount | None:
        """Return the processes and threads: of the host, of a container, and of the user `uid`, who is not root."""
        text = _read(self.proc / "loadavg").split()
        alive = int(text[3].partition("/")[2]) if len(text) > 3 else 0
        found = []
        for name in ("pid_max", "threads-max"):
            if (most := _number(self.proc / "sys/kernel", name)) is not None:
                found.append(Amount(most, alive, f"kernel.{name}"))
        for group in self._groups("pids"):
            most, used = _number(group, "pids.max"), _number(group, "pids.current")
            if most is not None and used is not None:
                found.append(Amount(most, used, f"the limit of processes of cgroup {group}"))
        most = resource.prlimit(self._starter or 0, resource.RLIMIT_NPROC)[0]
        if uid != 0 and most != resource.RLIM_INFINITY:
            # Those of a user can be counted only one by one: that is done where the sum of all might be too much.
            used = alive if alive < most // 2 else self._count_of(uid)
            found.append(Amount(most, used, "the limit of processes of one user, ulimit -u"))
        return min(found, key=lambda one: one.left, default=None)

    def open_files(self) -> Amount | None:
        """Return the open files of the host."""
        text = _read(self.proc / "sys/fs/file-nr").split()
        return Amount(int(text[2]), int(text[0]), "fs.file-max") if len(text) == 3 else None

    def shared_segments(self) -> Amount | None:
        """Return the segments of System V shared memory: each server has one."""
        most = _number(self.proc / "sys/kernel", "shmmni")
        used = max(0, _read(self.proc / "sysvipc/shm").count("\n") - 1)
        return None if most is None else Amount(most, used, "kernel.shmmni")

    def dynamic_shared_memory(self) -> Amount | None:
        """Return the bytes of the file system that has PostgreSQL's dynamic shared memory."""
        try:
            found = os.statvfs(self.shared_memory)
        except OSError:
            return None
        most, left = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        return Amount(most, most - left, f"the size of {self.shared_memory}")

    def _count_of(self, uid: int) -> int:
        found = 0
        with os.scandir(self.proc) as entries:
            for entry in entries:
                try:
                    found += entry.name.isdigit() and entry.stat().st_uid == uid
                except OSError:
                    continue  # it has just ended
        return found

    @property
    def _starter(self) -> int | None:
        """The process that starts the servers; None for this one."""
        found = None if self.worker is None else recorded_in(self.worker)
        return None if found is None else found.pid

    def _groups(self, controller: str) -> Sequence[Path]:
        """Return where the cgroups of the servers are, from their own to the topmost one that can be seen."""
        membership = _read(self.proc / str(self._starter or "self") / "cgroup")
        return _groups_in(self.cgroups, membership, controller)


@functools.lru_cache
def _groups_in(cgroups: Path, membership: str, controller: str) -> Sequence[Path]:
    """Return the directories of the cgroups that a controller counts in, by the text of /proc/self/cgroup."""
    found: list[Path] = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", controller):
            continue
        for root in [cgroups / controller] if controllers else [cgroups, cgroups / "unified"]:
            # In a container the path may be one of the host, which is not there: its own group is the root then.
            own = root / path.strip("/")
            found.extend(each for each in (own, *own.parents) if each.is_relative_to(root))
    return found


def _page_cache(group: Path) -> int:
    """Return the bytes that the kernel takes back from a cgroup as soon as they are needed."""
    lines = (line.partition(" ") for line in _read(group / "memory.stat").splitlines())
    counted = {name: value for name, _, value in lines}
    return int(counted.get("total_inactive_file", counted.get("inactive_file", "0")))


def _number(directory: Path, *names: str) -> int | None:
    """Return the number in the first of these files that is there; None where it is endless."""
    for name in names:
        text = _read(directory / name).strip()
        if text.isdigit():
            return int(text) if int(text) < _ENDLESS else None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
