"""PostgreSQL alone with a data directory: it recovers there what was captured, serves nobody, and stops cleanly.

It is the stand-alone backend (`postgres --single`): no socket, no archiver, no other process. Nothing is flushed
meanwhile, for what is not READY can be made again; the file system is flushed before anybody relies on it.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.children import spawn
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process.identity import processes_in, work_done
from ramet.backends.local.process.signals import handle_of, has_ended
from ramet.backends.local.wal.control_file import ControlData, read_control_data
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation

LABEL = "backup_label"
_LOCK_FILE = "postmaster.pid"
RECOVERY_SIGNAL = "recovery.signal"
_DATABASE = "postgres"
_LAST_LINES = 20
_DEADLY = re.compile(r"\b(?:FATAL|PANIC):  ")
_QUIET = {
    "archive_mode": "off",
    "fsync": "off",
    "hot_standby": "off",
    "log_destination": "stderr",
    "logging_collector": "off",
    "session_preload_libraries": "",
    "shared_preload_libraries": "",
    "ssl": "off",
}


@dataclass(frozen=True)
class SingleUser:
    """A data directory, the configuration of the service that it belongs to, and where is written what happens."""

    data: Path
    config_file: Path
    log: Path
    installation: Installation
    account: Account

    def recover(
        self, settings: Mapping[str, str], query: str, patience_seconds: float, *, leaves_timeline: int | None = None
    ) -> ControlData | str:
        """Recover the data directory, and ask `query` at the end; its answer is in the log.

        `leaves_timeline` is the timeline that archive recovery begins on and does not end on.

        May be called again as often as needed. Returns the control file of a cleanly stopped cluster, or as long as
        recovery is under way a text that changes when it gets on. Raises Failed, with the log, when PostgreSQL gave
        up, and Unavailable when it was killed: the next call begins anew.
        """
        # To look at all processes of the host takes long, and none is at work here before the first one was started.
        pid = next(iter(processes_in(self.data)), None) if self.log.exists() else None
        if pid is None:
            control = self._recovered()
            if control is not None:
                return control
            self._tell_again(leaves_timeline)
            pid = self._start(settings, query)
        if not _ended(pid, patience_seconds):
            return f"work {work_done(pid)}"
        control = self._recovered()
        if control is None:
            raise self._failure()
        return control

    def messages(self) -> Sequence[str]:
        """Return the lines that the last recovery wrote, the answer to its query among them."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def _tell_again(self, leaves_timeline: int | None) -> None:
        """Have archive recovery go on that was killed near its end.

        PostgreSQL removes the signal before the checkpoint that begins the new timeline: without it, it would replay
        the old one to its end, beyond every target.
        """
        if leaves_timeline is None or self._is_told_to_recover():
            return
        if read_control_data(self.installation.program("pg_controldata"), self.data).timeline == leaves_timeline:
            files.write(self.data / RECOVERY_SIGNAL)

    def _is_told_to_recover(self) -> bool:
        return (self.data / LABEL).exists() or (self.data / RECOVERY_SIGNAL).exists()

    def _recovered(self) -> ControlData | None:
        if self._is_told_to_recover():
            return None
        control = read_control_data(self.installation.program("pg_controldata"), self.data)
        return control if control.is_clean else None

    def _start(self, settings: Mapping[str, str], query: str) -> int:
        (self.data / _LOCK_FILE).unlink(missing_ok=True)  # a killed one's: nothing works here
        wanted = {"config_file": str(self.config_file), **_QUIET, **settings}
        command = [self.installation.program("postgres"), "--single", "-D", str(self.data)]
        command += [part for name, value in wanted.items() for part in ("-c", f"{name}={value}")]
        # What was killed after it had recovered, while it stopped, does not say once more where recovery ended.
        mode = "wb" if self._is_told_to_recover() else "ab"
        with self.log.open(mode) as log, _said(query) as asked:
            self.account.own(self.log)
            return spawn([*command, _DATABASE], self.account, self.data, log.fileno(), asked)

    def _failure(self) -> Failed | Unavailable:
        said = self.messages()
        words = "\n".join(said[-_LAST_LINES:])
        if any(_DEADLY.search(line) for line in said):
            return Failed("RECOVERY_FAILED", f"PostgreSQL could not recover {self.data}", words)
        return Unavailable("RECOVERY_INTERRUPTED", f"The recovery of {self.data} was ended from outside", words)


@contextlib.contextmanager
def _said(text: str) -> Iterator[int]:
    """Yield a descriptor that a program reads a few words from, and then the end."""
    reader, writer = os.pipe()
    try:
        os.write(writer, f"{text}\n".encode())
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


def _ended(pid: int, patience_seconds: float) -> bool:
    """Watch a process for at most `patience_seconds`; True when it is gone, and reaped if it is our child."""
    with handle_of(pid) as handle:
        if handle is not None and not has_ended(handle, patience_seconds):
            return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True
