"""The children of this process that nobody waits for: each is reaped within a second of its end.

Servers and their companions outlive who starts them, another process may stop them, and their records go with their
service. So this process remembers each child by its pid; until it is reaped no other process gets that pid.
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
                self._is_watched = True
                threading.Thread(target=self._watch, name="reaper", daemon=True).start()

    def reap(self) -> None:
        """Take leave of those that have ended."""
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
    """Reap a child at its end, whenever that is; return its pid. The object must not wait for it."""
    child.returncode = 0  # else the object would wait, or complain that nobody does
    _children.add(child.pid)
    return child.pid


def reap_ended() -> None:
    """Reap now those that have ended, for who looks right after."""
    _children.reap()


def _is_over(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _forget() -> None:
    """Leave the children to the process that has started them."""
    global _children
    _children = _Children()


os.register_at_fork(after_in_child=_forget)
