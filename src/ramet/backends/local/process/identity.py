"""Find the server process of a data directory. A pid alone is never trusted.

A copied or stale postmaster.pid names another process, perhaps another service's server (docs/hazards.md, 1). A process
is the server only when the lock file names the data directory, the process works in it and was started on it, and it is
the recorded one, if there is a record.

A process is gone only when the kernel has no entry of it; any other error is raised, because it says nothing about the
process. For this reason, and because each health check runs this code for each server, /proc is read directly: psutil
opens several files for each question, and turns all these errors into one.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psutil

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.machine.processes import ProcessRecord, record_of


def remember(file: Path, pid: int) -> None:
    """Record in a file which process was started."""
    record = record_of(pid)
    if record is not None:
        files.write(file, json.dumps(asdict(record)))


def recorded_in(file: Path) -> ProcessRecord | None:
    """Return the process that `remember` recorded; None when there is no record, or it cannot be read."""
    try:
        return ProcessRecord(**json.loads(files.read_existing(file)))
    except (*GONE, ValueError, TypeError):
        return None


def find_server(paths: ServicePaths) -> int | None:
    """Return the pid of the server of a data directory, starting ones included, or None when none runs."""
    recorded = recorded_in(paths.process_record)
    if recorded is not None and record_of(recorded.pid) == recorded and _may_serve(recorded.pid, paths):
        return recorded.pid
    pid = _locked_by(paths)
    if pid is None or (recorded is not None and recorded.pid == pid and record_of(pid) != recorded):
        return None
    return pid if _serves(pid, paths) and works_in(pid, paths.data) else None


def processes_in(directory: Path) -> list[int]:
    """Return the processes whose working directory this is: a server, or what a killed one left behind."""
    return [pid for pid in psutil.pids() if _is_seen_in(pid, directory)]


def _is_seen_in(pid: int, directory: Path) -> bool:
    with contextlib.suppress(PermissionError):  # a process of another user
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


def work_done(pid: int) -> int:
    """Return a number that grows while a process works: bytes read and written, and milliseconds of CPU time."""
    work = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        times = process.cpu_times()
        work = round((times.user + times.system) * 1000)
        transferred = process.io_counters()
        work += transferred.read_chars + transferred.write_chars
    return work


def _locked_by(paths: ServicePaths) -> int | None:
    """Return the pid in the lock file when its second line names our directory."""
    try:
        pid, directory = files.read_existing(paths.pid_file).splitlines()[:2]
        return int(pid) if Path(directory) == paths.data else None
    except (*GONE, ValueError):
        return None


def _may_serve(pid: int, paths: ServicePaths) -> bool:
    """Tell whether a process that we started is the server, or becomes it: during exec() it has no arguments."""
    return title_of(pid) == "" or _serves(pid, paths)


def _serves(pid: int, paths: ServicePaths) -> bool:
    arguments = _arguments(pid)
    return len(arguments) > 2 and Path(arguments[0]).name == "postgres" and arguments[1:3] == ["-D", str(paths.data)]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except GONE:
        return []
