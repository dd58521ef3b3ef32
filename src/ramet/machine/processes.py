"""Which process a pid means. A pid alone is never believed, for the kernel gives it to other processes later.

A process is gone only where the kernel has no entry of it; every other error is raised, for it says nothing of it.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

_START_TICKS_FIELD = 21
_STATE_FIELD = 2


@dataclass(frozen=True)
class ProcessRecord:
    """A process beyond doubt: the kernel gives no other one the same pid, start and boot."""

    pid: int
    start_ticks: int
    boot_id: str


def record_of(pid: int) -> ProcessRecord | None:
    """Return what identifies a process that lives, or None when it is gone or a zombie."""
    fields = stat_fields(pid)
    if fields is None or fields[_STATE_FIELD] in "ZX":
        return None
    return ProcessRecord(pid, int(fields[_START_TICKS_FIELD]), boot_id())


@cache
def boot_id() -> str:
    """Return what the kernel calls the time since the host was last started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat (proc_pid_stat(5)), counted from 0, or None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    name_end = text.rindex(")")
    return [str(pid), text[: name_end + 1], *text[name_end + 2 :].split()]
