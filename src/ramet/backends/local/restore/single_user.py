"""Recover a data directory with PostgreSQL in single-user mode, which then shuts down cleanly.

`postgres --single` has no socket, no archiver and no other process. It runs with fsync = off, because a fork that is
not READY can be created again; the file system is flushed before the fork is used.
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
from ramet.backends.local.server.configuration import for_origins
from ramet.backends.local.wal.control_file import ControlData, read_control_data
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation

LABEL = "backup_label"
_LOCK_FILE = "postmaster.pid"
RECOVERY_SIGNAL = "recovery.signal"
_DATABASE = "postgres"
_LAST_LINES = 20
_FATAL = re.compile(r"\b(?:FATAL|PANIC):  ")
_QUIET = {
    "archive_mode": "off",
    "fsync": "off",
    "hot_standby": "off",
    "lock_timeout": "0",
    "log_destination": "stderr",
    "log_min_duration_statement": "-1",
    "logging_collector": "off",
    "session_preload_libraries": "",
    "shared_preload_libraries": "",
    "ssl": "off",
    "statement_timeout": "0",
}


@dataclass(frozen=True)
class SingleUser:
    """The directory of a service, a data directory in it, its configuration, and the log of its recovery."""

    root: Path
    data: Path
    config_file: Path
    log: Path
    installation: Installation
    account: Account

    def recover(
        self, settings: Mapping[str, str], query: str, timeout_seconds: float, *, leaves_timeline: int | None = None
    ) -> ControlData | str:
        """Recover the data directory, and execute `query` at the end; its result is in the log.

        `leaves_timeline` is the timeline that archive recovery starts on and has to leave.

        May be called repeatedly. Returns the control file after a clean shutdown, or while recovery is in progress a
        text that changes with its progress. Raises Failed, with the log, when PostgreSQL reported a fatal error, and
        Unavailable when it was killed: the next call starts it again.
        """
        # Searching all processes of the host is slow, and none can run here before the first one was started.
        pid = next(iter(processes_in(self.data)), None) if self.log.exists() else None
        if pid is None:
            control = self._recovered()
            if control is not None:
                return control
            self._restore_signal(leaves_timeline)
            pid = self._start(settings, query)
        if not _ended(pid, timeout_seconds):
            return f"work {work_done(pid)}"
        control = self._recovered()
        if control is None:
            raise self._failure()
        return control

    def messages(self) -> Sequence[str]:
        """Return the log of the last recovery, including the result of its query."""
        return files.read(self.log, errors="replace").splitlines()

    def _restore_signal(self, leaves_timeline: int | None) -> None:
        """Let archive recovery continue that was killed near its end.

        PostgreSQL removes recovery.signal before the checkpoint that begins the new timeline. Without it, PostgreSQL
        would replay the old timeline to its end, beyond the recovery target.
        """
        if leaves_timeline is None or self._has_recovery_files():
            return
        if read_control_data(self.installation, self.data).timeline == leaves_timeline:
            files.write(self.data / RECOVERY_SIGNAL)

    def _has_recovery_files(self) -> bool:
        return (self.data / LABEL).exists() or (self.data / RECOVERY_SIGNAL).exists()

    def _recovered(self) -> ControlData | None:
        if self._has_recovery_files():
            return None
        control = read_control_data(self.installation, self.data)
        return control if control.is_clean else None

    def _start(self, settings: Mapping[str, str], query: str) -> int:
        (self.data / _LOCK_FILE).unlink(missing_ok=True)  # of a killed process: none runs here
        wanted = {"config_file": str(self.config_file), **_QUIET, **for_origins(self.installation.major), **settings}
        command = [self.installation.program("postgres"), "--single", "-D", str(self.data)]
        command += [part for name, value in wanted.items() for part in ("-c", f"{name}={value}")]
        # After a kill during shutdown PostgreSQL does not log again where recovery ended, so the log is kept.
        keep = not self._has_recovery_files()
        with files.output(self.root, self.log, keep=keep) as log, _input_of(query) as asked:
            return spawn([*command, _DATABASE], self.account, self.data, log, asked)

    def _failure(self) -> Failed | Unavailable:
        said = self.messages()
        words = "\n".join(said[-_LAST_LINES:])
        if any(_FATAL.search(line) for line in said):
            return Failed("RECOVERY_FAILED", f"PostgreSQL could not recover {self.data}", words)
        return Unavailable("RECOVERY_INTERRUPTED", f"The recovery of {self.data} was killed", words)


@contextlib.contextmanager
def _input_of(text: str) -> Iterator[int]:
    """Yield a descriptor from which a program reads a short text."""
    reader, writer = os.pipe()
    try:
        os.write(writer, f"{text}\n".encode())
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


def _ended(pid: int, timeout_seconds: float) -> bool:
    """Wait for at most `timeout_seconds`; True when the process has ended. Reaps it if it is our child."""
    with handle_of(pid) as handle:
        if handle is not None and not has_ended(handle, timeout_seconds):
            return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True
