"""Which process is the server of a data directory: never believed from a pid alone.

A copied or stale postmaster.pid names a stranger, perhaps another service's server (docs/hazards.md, 1). A process is
ours only when the lock file names our directory, the process works in it, was started on it, and is the one that we
recorded as far as we recorded any.

Only where the kernel has no entry of a process is it gone; every other error is raised, for it says nothing of it.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.host.system_user import Account
from ramet.machine.processes import ProcessRecord, record_of, stat_fields


def remember(paths: ServicePaths, pid: int, account: Account) -> None:
    """Record the process that was started for a service."""
    record = record_of(pid)
    if record is not None:
        account.write(paths.process_record, json.dumps(asdict(record)), durable=False)


def find_server(paths: ServicePaths) -> int | None:
    """Return the pid of the server of a data directory, starting ones included, or None when none runs."""
    recorded = _recorded(paths)
    if recorded is not None and record_of(recorded.pid) == recorded and _may_serve(recorded.pid, paths):
        return recorded.pid
    pid = _locked_by(paths)
    if pid is None or (recorded is not None and recorded.pid == pid and record_of(pid) != recorded):
        return None
    return pid if _serves(pid, paths) and works_in(pid, paths.data) else None


def processes_in(directory: Path) -> list[int]:
    """Return the processes that work in a directory: a server, or what a killed one left behind."""
    return [pid for pid in _all_processes() if _is_seen_in(pid, directory)]


def _is_seen_in(pid: int, directory: Path) -> bool:
    with contextlib.suppress(PermissionError):  # of other users' processes, which are none of ours
        return works_in(pid, directory)
    return False


def runs(pid: int, program: str) -> bool:
    """Tell whether a process was started as `program`."""
    return _arguments(pid)[:1] == [program]


def works_in(pid: int, directory: Path) -> bool:
    """Tell whether a process has a directory as its working directory."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == directory
    except GONE:
        return False


def children_of(parent: int) -> Iterator[tuple[int, str]]:
    """Yield pid and title of each child process."""
    try:
        pids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except GONE:
        return
    for pid in pids:
        yield int(pid), title_of(int(pid))


def title_of(pid: int) -> str:
    """Return the command line of a process, or "" when it is gone."""
    return " ".join(_arguments(pid)).strip()


def cpu_ticks(pid: int) -> int:
    """Return the CPU time that a process has used, in clock ticks."""
    fields = stat_fields(pid)
    return 0 if fields is None else int(fields[13]) + int(fields[14])


def transferred_bytes(pid: int) -> int:
    """Return how many bytes a process has read and written, those of the page cache too."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except (*GONE, PermissionError):
        return 0
    counts = dict(line.split(": ") for line in lines)
    return int(counts["rchar"]) + int(counts["wchar"])


def _recorded(paths: ServicePaths) -> ProcessRecord | None:
    try:
        return ProcessRecord(**json.loads(paths.process_record.read_text()))
    except (*GONE, ValueError, TypeError):
        return None


def _locked_by(paths: ServicePaths) -> int | None:
    """Return the pid in the lock file when its second line names our directory."""
    try:
        pid, directory = paths.pid_file.read_text().splitlines()[:2]
        return int(pid) if Path(directory) == paths.data else None
    except (*GONE, ValueError):
        return None


def _may_serve(pid: int, paths: ServicePaths) -> bool:
    """Tell whether a process that we started serves, or is about to: it shows no arguments for a moment in exec."""
    return title_of(pid) == "" or _serves(pid, paths)


def _serves(pid: int, paths: ServicePaths) -> bool:
    arguments = _arguments(pid)
    return len(arguments) > 2 and Path(arguments[0]).name == "postgres" and arguments[1:3] == ["-D", str(paths.data)]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except GONE:
        return []


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names, many of them
