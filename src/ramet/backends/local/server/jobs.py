"""Background jobs on servers and their data: ANALYZE, checking for corruption, imports, copies, uploads, upgrades.

The process that starts a job runs it in a thread; all processes of the host can get its result. After a restart of that
process the job is started again, which is harmless. The number of jobs that run at once on the host is limited.
"""

import contextlib
import fcntl
import json
import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psycopg

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.errors import Error, Failed, Unavailable, Unseen

_TEXT_CHARACTERS = 4000
OUTCOME_SECONDS = 60.0
_KINDS: Mapping[str, type[Error]] = {"Unseen": Unseen, "Unavailable": Unavailable}  # the first one that it is
_RANGE = struct.Struct("hhqqi4x")  # struct flock of fcntl(2)
_Facts = TypeVar("_Facts")
_log = logging.getLogger(__name__)


def cpu_count() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Jobs:
    """The jobs of this process, by service and name, and the job slots of the host.

    Each byte of the file `slots` is one slot, in use while a process has locked it. `make_sockets` creates the
    directory of a service's sockets, which has the locks of its jobs, unless it exists: none does after a restart of
    the host.
    """

    slots: Path
    most: int
    make_sockets: Callable[[ServicePaths], None] = lambda _: None
    _running: dict[tuple[str, str], threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, paths: ServicePaths, name: str, work: Callable[[], str], timeout_seconds: float) -> str | None:
        """Start the job unless it is running in any process, and wait for at most `timeout_seconds`.

        Returns the first 4000 characters of what `work` returned, in this process or another; None while it is running
        or waits for a slot.
        """
        return self._run(paths, name, lambda: work()[:_TEXT_CHARACTERS], timeout_seconds)

    def result_of(
        self, paths: ServicePaths, name: str, work: Callable[[], _Facts], timeout_seconds: float, *, code: str
    ) -> _Facts | None:
        """Run a job as `run` does; return the facts that its work returned (JSON, whole), None while it is running.

        Raises its error: Unseen, Unavailable and Failed as they are, all others as Failed with `code`.
        """
        outcome = self._run(paths, name, lambda: _encoded(work, code), timeout_seconds)
        if outcome is None:
            return None
        try:
            found = json.loads(outcome)
        except ValueError as error:  # an unexpected error, with the message of the thread
            raise Failed(code, outcome) from error
        if "error" in found:
            kind = _KINDS.get(found.pop("error"), Failed)
            raise kind(**found)
        facts: _Facts = found["facts"]
        return facts

    def kept_result(
        self,
        paths: ServicePaths,
        done: Path,
        work: Callable[[], _Facts],
        timeout_seconds: float,
        *,
        code: str,
        name: str | None = None,
    ) -> _Facts | None:
        """Return the facts in the file `done`; without one do as `result_of` does with work that writes it at its end.

        So what took long is not done again when nobody asks for its result within a minute. `name` is that of the job
        where it is not the file's.
        """

        def keep() -> _Facts:
            facts = work()
            files.write(done, json.dumps(facts), durable=True)
            return facts

        if text := files.read(done):
            known: _Facts = json.loads(text)
            return known
        facts = self.result_of(paths, name or done.name, keep, timeout_seconds, code=code)
        if facts is not None and not files.read(done):  # the job of an earlier release, which leaves that to who asks
            files.write(done, json.dumps(facts), durable=True)
        return facts

    def end(self, paths: ServicePaths) -> None:
        """Forget the jobs of a service that is removed or stopped: their connections end with the server.

        One that connects again asks `check_wanted` before.
        """
        with self._lock:
            for key in [key for key in self._running if key[0] == paths.service_id]:
                del self._running[key]
        for outcome in paths.sockets.glob(_outcome("*")):
            outcome.unlink(missing_ok=True)

    def check_wanted(self, paths: ServicePaths, name: str) -> None:
        """Raise Failed in the thread of a job that was ended: its result is not used, and it may be done again."""
        with self._lock:
            is_wanted = self._running.get((paths.service_id, name)) is threading.current_thread()
        if not is_wanted:
            raise Failed("JOB_ENDED", f"The server of service {paths.service_id} was stopped during {name}")

    def _run(self, paths: ServicePaths, name: str, work: Callable[[], str], timeout_seconds: float) -> str | None:
        found = _take_outcome(paths, name)
        if found is not None:
            return found
        thread = self._begin(paths, name, work)
        if thread is None:
            return _take_outcome(paths, name)  # the job may have ended in between
        thread.join(timeout_seconds)
        return None if thread.is_alive() else _take_outcome(paths, name)

    def _begin(self, paths: ServicePaths, name: str, work: Callable[[], str]) -> threading.Thread | None:
        key = (paths.service_id, name)
        with self._lock:
            running = self._running.get(key)
            if running is not None and running.is_alive():
                return running
            if paths.root.is_dir():
                self.make_sockets(paths)
            with contextlib.ExitStack() as stack:
                if not (_owned(stack, paths, name) and self._has_slot(stack)):
                    return None
                held = stack.pop_all()
            thread = threading.Thread(target=self._do, args=(paths, name, work, held), name=f"{name}-{key[0]}")
            thread.daemon = True
            try:
                thread.start()
            except RuntimeError as error:
                held.close()
                _log.warning("%s of service %s begins later: %s", name, paths.service_id, error)
                return None
            self._running[key] = thread
        return thread

    def _do(self, paths: ServicePaths, name: str, work: Callable[[], str], held: contextlib.ExitStack) -> None:
        with held:
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 - the edge of a thread: the result has the error
                _log.info("%s of service %s failed: %s", name, paths.service_id, error)
                outcome = f"{name} failed: {error}"[:_TEXT_CHARACTERS]
            with self._lock:
                if self._running.pop((paths.service_id, name), None) is threading.current_thread():
                    with contextlib.suppress(OSError):  # the service was removed
                        files.write(paths.sockets / _outcome(name), outcome)

    def _has_slot(self, stack: contextlib.ExitStack) -> bool:
        file = stack.enter_context(self.slots.open("a"))
        for number in range(self.most):
            with contextlib.suppress(BlockingIOError, PermissionError):
                wanted = _RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
                return True
        return False


def _owned(stack: contextlib.ExitStack, paths: ServicePaths, name: str) -> bool:
    """Lock the job as long as the stack is open; False when another process runs it, or has just finished it."""
    try:
        stack.enter_context(files.locked(paths.sockets / f"{name}.lock", timeout_seconds=0))
    except (TimeoutError, FileNotFoundError):
        return False
    return not (paths.sockets / _outcome(name)).exists()


def _encoded(work: Callable[[], object], code: str) -> str:
    """Do the work, and return its facts, or its error, as a text that another process can read."""
    try:
        return json.dumps({"facts": work()})
    except Error as error:
        kind = next((name for name, each in _KINDS.items() if isinstance(error, each)), "Failed")
        message, details = error.message[:_TEXT_CHARACTERS], error.details[:_TEXT_CHARACTERS]
        return json.dumps({"error": kind, "code": error.code, "message": message, "details": details})
    except psycopg.Error as error:
        return json.dumps({"error": "Failed", "code": code, "message": str(error).strip()[:1000], "details": ""})


def _outcome(name: str) -> str:
    return f"{name}.ended"


def _take_outcome(paths: ServicePaths, name: str) -> str | None:
    """Return the result of the job, once; a result that is not fetched within a minute is discarded."""
    path = paths.sockets / _outcome(name)
    try:
        with files.plain(path) as file:  # the directory belongs to the servers' user
            text, ended = file.read().decode(), os.fstat(file.fileno()).st_mtime
        path.unlink()
    except FileNotFoundError:
        return None
    return text if time.time() - ended < OUTCOME_SECONDS else None
