"""A helper program of a server, such as a pooler: it outlives this process, and is found again by its directory.

The directory is private, so each process that works in it is the program, or what a killed one left behind. A pid alone
is never trusted.
"""

import contextlib
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.children import spawn
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process import signals
from ramet.backends.local.process.identity import processes_in, recorded_in, remember, works_in
from ramet.backends.local.process.log_files import tail
from ramet.machine.processes import record_of

_RECORD = "process.json"
_OUTPUT = "start.log"


@dataclass(frozen=True)
class Daemon:
    """The program that works in `home`, which exists while it runs."""

    home: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Prevent other threads and processes from starting or stopping the program."""
        with files.locked(self.home / "lock"):
            yield

    def running(self) -> int | None:
        """Return the pid of the program, or None when it does not run."""
        recorded = recorded_in(self.home / _RECORD)
        if recorded is not None and record_of(recorded.pid) == recorded and works_in(recorded.pid, self.home):
            return recorded.pid
        return next(iter(processes_in(self.home)), None)

    def start(self, command: list[str], account: Account) -> int:
        """Start the program, which must not run yet, as `account`; return its pid without waiting for it."""
        with files.output(self.home, self.home / _OUTPUT) as output:
            pid = spawn(command, account, self.home, output)
        remember(self.home / _RECORD, pid)
        _allow_all_files(pid)
        return pid

    def reload(self) -> None:
        """Make the program read its configuration again, if it runs."""
        self._signal(signal.SIGHUP, 0)

    def pause(self) -> None:
        """Make a PgBouncer let its clients wait, if it runs."""
        self._signal(signal.SIGUSR1, 0)

    def resume(self) -> None:
        """Make a PgBouncer serve its clients again, if it runs."""
        self._signal(signal.SIGUSR2, 0)

    def end(self, timeout_seconds: float) -> bool:
        """Terminate the program; True when no process works in its directory any more. May run again."""
        if not self.home.is_dir():
            return True
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number, timeout_seconds)
        return self.running() is None

    def last_lines(self, log: str) -> str:
        """Return the last lines of its standard output and its log."""
        lines: list[str] = []
        for name in (_OUTPUT, log):
            with contextlib.suppress(OSError):
                lines += tail(self.home / name).decode(errors="replace").splitlines()
        return "\n".join(lines[-10:])

    def _signal(self, number: signal.Signals, timeout_seconds: float) -> None:
        pid = self.running()
        if pid is not None:
            signals.send(pid, number, lambda: works_in(pid, self.home), wait_seconds=timeout_seconds)


def _allow_all_files(pid: int) -> None:
    """Let a process open as many files as the host allows: each client is one."""
    with contextlib.suppress(OSError):
        _soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
