"""Programs that work on a running server for a while and need nobody to wait for them: ANALYZE, pg_amcheck.

They are children of this process. After a restart they are begun again, which does no harm.
"""

import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from ramet.backends.local import sql
from ramet.backends.local.account import Account
from ramet.backends.local.paths import ServicePaths

_OUTPUT_CHARACTERS = 4000


@dataclass(frozen=True)
class Finished:
    """How a program ended, and the end of what it said."""

    status: int
    output: str


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[bytes]
    output: IO[bytes]


@dataclass(frozen=True)
class Chores:
    """The programs at work, by service and name."""

    account: Account
    _running: dict[tuple[str, str], _Running] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, paths: ServicePaths, name: str, command: Sequence[str], patience_seconds: float) -> Finished | None:
        """Start a program unless it runs, and watch it for at most `patience_seconds`; None while it is at work.

        It connects to the server of `paths` as the platform, deaf to what tenants have set.
        """
        key = (paths.service_id, name)
        with self._lock:
            if key not in self._running:
                self._running[key] = self._start(paths, command)
            running = self._running[key]
        try:
            status = running.process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            return None
        with self._lock:
            if self._running.pop(key, None) is None:
                return Finished(status, "It was ended.")
        with running.output as output:
            output.seek(0)
            return Finished(status, output.read().decode(errors="replace")[-_OUTPUT_CHARACTERS:].strip())

    def end(self, service_id: str) -> None:
        """End what works on a service that goes away or is stopped."""
        with self._lock:
            ended = [self._running.pop(key) for key in list(self._running) if key[0] == service_id]
        for running in ended:
            running.process.kill()
            running.process.wait()
            running.output.close()

    def _start(self, paths: ServicePaths, command: Sequence[str]) -> _Running:
        output = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the program runs
        process = subprocess.Popen(
            command,
            env={**sql.environment(paths), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **self.account.identity(),
        )
        return _Running(process, output)
