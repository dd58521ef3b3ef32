"""Which process a pid means. A pid alone is never believed, for the kernel gives it to other processes later.

A process is gone only where the kernel has no entry of it; every other error is raised, for it says nothing of it.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

# In a data directory: the process that runs the operations, and so starts the servers, where it serves no HTTP.
WORKER_RECORD = "worker.json"

# Among the fields after the name.
_STATE = 0
_START_TICKS = 19


@dataclass(frozen=True)
class ProcessRecord:
    """A process beyond doubt: the kernel gives no other one the same pid, start and boot."""

    pid: int
    start_ticks: int
    boot_id: str


def record_of(pid: int) -> ProcessRecord | None:
    """Return what identifies a process that lives, or None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # after the name, which may contain spaces: proc_pid_stat(5)
    if fields[_STATE] in "ZX":
        return None
    return ProcessRecord(pid, int(fields[_START_TICKS]), boot_id())


def recorded_in(path: Path) -> ProcessRecord | None:
    """Return the process that a file records, if it lives."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return found if record_of(found.pid) == found else None


@cache
def boot_id() -> str:
    """Return what the kernel calls the time since the host was last started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
