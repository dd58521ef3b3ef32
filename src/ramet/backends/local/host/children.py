"""Start programs that outlive this process, and reap those that end while it still runs, within a second.

Another process may stop a server and remove its records, so this process keeps the pid of each child that it started.
The kernel gives that pid to no other process until the child is reaped.
"""

import os
import subprocess
import threading
from pathlib import Path

from ramet.backends.local.host.system_user import Account

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": "/usr/bin:/bin"}

_EVERY_SECONDS = 1.0


class _Children:
    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._lock = threading.Lock()
        self._is_watched = False

    def add(self, pid: int) -> None:
        with self._lock:
            self._pids.add(pid)
            if not self._is_watched:
                threading.Thread(target=self._watch, name="reaper", daemon=True).start()
                self._is_watched = True

    def reap(self) -> None:
        """Reap the server processes and other children that have ended."""
        with self._lock:
            self._pids = {pid for pid in self._pids if not _is_over(pid)}

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            self.reap()
            with self._lock:
                if not self._pids:
                    self._is_watched = False
                    return
            pause.wait(_EVERY_SECONDS)


_children = _Children()


def spawn(command: list[str], account: Account, directory: Path, output: int, standard_input: int | None = None) -> int:
    """Start a program that outlives this process, as `account` in `directory`; return its pid without waiting for it.

    Its output goes to the descriptor `output`; without `standard_input` there is nothing to read.
    """
    lent, identity = account.lend(command)
    return adopt(
        subprocess.Popen(
            lent, env=ENVIRONMENT, cwd=directory, stdout=output, stderr=output, start_new_session=True, umask=0o077,
            stdin=subprocess.DEVNULL if standard_input is None else standard_input, **identity,
        )
    )  # fmt: skip


def adopt(child: "subprocess.Popen[bytes]") -> int:
    """Reap a child when it ends, and return its pid. The caller must not wait for it."""
    child.returncode = 0  # otherwise the object would wait for it, or warn that it still runs
    _children.add(child.pid)
    return child.pid


def reap_ended() -> None:
    """Reap the children that have ended now, before the caller checks which processes exist."""
    _children.reap()


def _is_over(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _forget() -> None:
    """Forget the children in a forked process: the one that started them reaps them."""
    global _children
    _children = _Children()


os.register_at_fork(after_in_child=_forget)
