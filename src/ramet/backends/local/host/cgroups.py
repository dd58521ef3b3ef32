"""Limits on the CPU and memory of each server by cgroups, version 2 or 1, where the host permits it."""

import contextlib
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ramet.machine.waiting import wait_until
from ramet.model.size import Size

_V2_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_V1_CPU = Path("/sys/fs/cgroup/cpu")
_V1_MEMORY = Path("/sys/fs/cgroup/memory")
_PERIOD_MICROS = 100_000
_REMOVAL_SECONDS = 2.0


class Limits:
    """What limits the servers of services to their size. Shared services have no limits."""

    def describe(self) -> str:
        """Say in a sentence what is enforced."""
        raise NotImplementedError

    def apply(self, service_id: str, size: Size, pids: list[int]) -> None:
        """Limit processes and their future children to a size; may run again, also with another size."""

    def remove(self, service_id: str) -> None:
        """Remove the limits of a service whose processes have ended."""

    def names(self) -> list[str]:
        """Return the services that have limits on this host."""
        return []


@dataclass(frozen=True)
class NoLimits(Limits):
    """A host on which nothing can be limited."""

    reason: str

    def describe(self) -> str:
        """Say why nothing is enforced."""
        return f"CPU and memory limits are not enforced: {self.reason}."


@dataclass(frozen=True)
class Cgroups(Limits):
    """The cgroups of one data root, below one parent."""

    version: int
    cpu: Path
    memory: Path

    def describe(self) -> str:
        return f"CPU and memory limits are enforced by cgroups version {self.version}."

    def apply(self, service_id: str, size: Size, pids: list[int]) -> None:
        """Create the service's groups, set their limits, and move the processes into them."""
        if size.shared and not any(group.exists() for group in self._groups(service_id)):
            return
        for group in self._groups(service_id):
            self._make(group)
        self._set_cpu(self.cpu / service_id, size.cpu_millis)
        self._set_memory(self.memory / service_id, size.memory_gbs)
        for group in self._groups(service_id):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(pid))

    def remove(self, service_id: str) -> None:
        """Remove the service's groups; waits briefly, because the kernel may not have removed their processes yet."""
        for group in self._groups(service_id):
            wait_until(partial(_removed, group), _REMOVAL_SECONDS)
        self.forget_if_empty()

    def names(self) -> list[str]:
        """Return the services that have groups."""
        found = {path.name for parent in {self.cpu, self.memory} if parent.is_dir() for path in parent.iterdir()}
        return sorted(name for name in found if (self.cpu / name).is_dir() or (self.memory / name).is_dir())

    def forget_if_empty(self) -> None:
        """Remove the parent groups when they contain no service."""
        for parent in {self.cpu, self.memory}:
            with contextlib.suppress(OSError):
                parent.rmdir()
                parent.parent.rmdir()

    def make_parents(self) -> None:
        """Create the parent groups; in version 2 each level has to enable the controllers for the next."""
        for parent in {self.cpu, self.memory}:
            parent.mkdir(parents=True, exist_ok=True)
            for level in (parent.parent.parent, parent.parent, parent) if self.version == 2 else ():
                (level / "cgroup.subtree_control").write_text("+cpu +memory")

    def _make(self, group: Path) -> None:
        # Removal of the last service of a data root may remove the parents between these two lines: then try again.
        for _ in range(10):
            with contextlib.suppress(FileNotFoundError):
                self.make_parents()
                group.mkdir(exist_ok=True)
                return
        raise OSError(f"the cgroup {group} is removed each time it is created")

    def _groups(self, service_id: str) -> set[Path]:
        return {self.cpu / service_id, self.memory / service_id}

    def _set_cpu(self, group: Path, cpu_millis: int | None) -> None:
        quota = None if cpu_millis is None else cpu_millis * _PERIOD_MICROS // 1000
        if self.version == 2:
            (group / "cpu.max").write_text(f"{'max' if quota is None else quota} {_PERIOD_MICROS}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROS))
            (group / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def _set_memory(self, group: Path, memory_gbs: int | None) -> None:
        limit = None if memory_gbs is None else memory_gbs * 1024**3
        if self.version == 2:
            (group / "memory.max").write_text("max" if limit is None else str(limit))
        else:
            (group / "memory.limit_in_bytes").write_text(str(-1 if limit is None else limit))


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def open_limits(mark: str) -> Limits:
    """Return the limits that this host can enforce; `mark` distinguishes the groups of data roots."""
    if os.geteuid() != 0:
        return NoLimits("Ramet does not run as root")
    found = _controllers(mark)
    if found is None:
        return NoLimits("this host has no cgroup controllers for cpu and memory")
    try:
        found.make_parents()
    except OSError as error:
        return NoLimits(f"the host's cgroups cannot be changed ({error})")
    found.forget_if_empty()
    return found


def _controllers(name: str) -> Cgroups | None:
    for root in _V2_ROOTS:
        listed = root / "cgroup.controllers"
        if listed.is_file() and {"cpu", "memory"} <= set(listed.read_text().split()):
            return Cgroups(2, root / "ramet" / name, root / "ramet" / name)
    if (_V1_CPU / "tasks").is_file() and (_V1_MEMORY / "memory.limit_in_bytes").is_file():
        return Cgroups(1, _V1_CPU / "ramet" / name, _V1_MEMORY / "ramet" / name)
    return None
