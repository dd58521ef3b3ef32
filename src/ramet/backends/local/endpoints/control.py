"""Starting the forwarder of a data root, and talking to it."""

import contextlib
import json
import shutil
import socket
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ramet.backends.local.endpoints import forwarder
from ramet.backends.local.host.paths import make_private_parents
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process.daemon import Daemon
from ramet.errors import Failed, Unavailable
from ramet.machine.waiting import wait_until

_REPETITIONS, _REPETITION_SECONDS = 4, 0.05
_START_SECONDS = 20.0
_END_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Control:
    """The forwarder that works in the directory `home`."""

    home: Path
    account: Account

    def ask(self, do: str, answer_seconds: float = _ANSWER_SECONDS, **named: Any) -> dict[str, Any]:
        """Send a request, and return the answer; the forwarder is started when it does not run.

        Raises Failed when it cannot do that, and Unavailable when it does not answer.
        """
        for is_last in (*[False] * _REPETITIONS, True):
            try:
                self._ensure()
                answer = self._exchange({"do": do, **named}, answer_seconds)
                break
            except OSError as error:  # it ends when it has no endpoint, perhaps just now, and its directory goes then
                if is_last:
                    raise Unavailable("FORWARDER_SILENT", "The process of the endpoints does not answer") from error
            except Unavailable:
                if is_last or self.runs():
                    raise
            time.sleep(_REPETITION_SECONDS)
        if "error" in answer:
            raise Failed(
                "ENDPOINT_NOT_OPEN", f"The endpoint on port {named.get('port')} cannot be opened", answer["error"]
            )
        return answer

    def _exchange(self, request: dict[str, Any], answer_seconds: float) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(answer_seconds)
            connection.connect(str(self._socket))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline()
        if not line:
            raise ConnectionAbortedError(self.home)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def describe(self) -> str:
        """Say in one sentence which endpoints the process has."""
        pid = self._daemon.running() if self.home.is_dir() else None
        if pid is None:
            return "No service falls asleep, so that every server has its own endpoint."
        try:
            count = len(self._known())
        except OSError as error:
            return f"The process {pid}, which has the endpoints of services that fall asleep, does not answer: {error}."
        return f"The process {pid} has the endpoints of services that fall asleep: {count}."

    def services(self) -> list[str]:
        """Return the services that have endpoints: none where the process does not run, or does not answer."""
        try:
            return self._known() if self.runs() else []
        except OSError:
            return []

    def _known(self) -> list[str]:
        found: list[str] = self._exchange({"do": "known"}, _ANSWER_SECONDS)["services"]
        return found

    def runs(self) -> bool:
        """Tell whether the process runs."""
        return self.home.is_dir() and self._daemon.running() is not None

    def end(self) -> None:
        """End the process, and remove its directory; no process is no error."""
        if not self.home.is_dir():
            return
        with self._daemon.alone():
            if not self._daemon.end(_END_SECONDS):
                raise Unavailable("FORWARDER_ENDING", "The process of the endpoints is still shutting down")
        shutil.rmtree(self.home.parent, ignore_errors=True)

    def tidy(self) -> None:
        """Remove the directory of a process that ends because it has no endpoint any more."""
        with contextlib.suppress(FileNotFoundError), self._daemon.alone():  # without it another call removed it
            if wait_until(lambda: self._daemon.running() is None, _END_SECONDS, _PAUSE_SECONDS):
                shutil.rmtree(self.home.parent, ignore_errors=True)

    @property
    def _daemon(self) -> Daemon:
        return Daemon(self.home)

    @property
    def _socket(self) -> Path:
        return self.home / forwarder.CONTROL

    def _ensure(self) -> None:
        if self._socket.exists() and self.runs():
            return
        make_private_parents(self.home)
        self.account.make_directory(self.home)
        with self._daemon.alone():
            wait_until(lambda: self._daemon.running() is None or self._socket.exists(), _END_SECONDS, _PAUSE_SECONDS)
            if self._daemon.running() is None:
                self._socket.unlink(missing_ok=True)
                self._start()
        wait_until(lambda: self._socket.exists() or self._daemon.running() is None, _START_SECONDS, _PAUSE_SECONDS)
        if not self._socket.exists():
            raise Unavailable(
                "FORWARDER_SILENT", "The process of the endpoints does not start", self._daemon.last_lines("start.log")
            )

    def _start(self) -> None:
        """Start it as this user, who can read Ramet's own files; it gives up root's rights itself."""
        lent = self.account.lent
        identity = [str(self.account.uid), str(self.account.gid)] if lent else []
        command = [sys.executable, "-P", "-m", forwarder.__name__, str(self.home), *identity]
        self._daemon.start(command, replace(self.account, lent=False))
