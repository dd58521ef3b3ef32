"""Run a function in a helper process, which is kept for the next call.

Copying a tree makes thousands of system calls, each of which releases and reacquires the GIL; next to a CPU-bound
thread that takes minutes, so a helper process does it. Helper processes end with this process.
"""

import atexit
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, ParamSpec, TypeVar

from ramet.errors import Unseen

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LENGTH_BYTES = 8
_COPIES = os.cpu_count() or 1
_turns, _turns_of_copies = threading.BoundedSemaphore(_COPIES + 1), threading.BoundedSemaphore(_COPIES)
_idle: "queue.LifoQueue[_Helper]" = queue.LifoQueue()


def call(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function of a module in a helper process; at most one call for each CPU runs, and another one.

    What may take hours is for `call_to_copy`. Raises what the function raises, and Unseen when the process dies:
    the function may then have run in part.
    """
    with _turns:
        try:
            helper = _idle.get_nowait()
        except queue.Empty:
            helper = _Helper()
        try:
            succeeded, result = helper.ask((function, args, kwargs))
        except BaseException:
            helper.end()
            raise
        _idle.put(helper)
    if succeeded:
        answer: _R = result
        return answer
    raise result


def call_to_copy(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function that copies a tree, as `call` does. However many copies there are, other calls have a turn."""
    with _turns_of_copies:
        return call(function, *args, **kwargs)


class _Helper:
    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", __name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def ask(self, task: object) -> tuple[bool, Any]:
        """Send one call and return whether it succeeded, and its result or its exception."""
        try:
            _send(self._process.stdin, task)
            answer: tuple[bool, Any] = pickle.loads(_receive(self._process.stdout))  # noqa: S301 - from our own process
        except (EOFError, OSError) as error:
            raise Unseen("HELPER_DIED", "The helper process that copies files has terminated", repr(error)) from error
        return answer

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()


@atexit.register
def _end_idle() -> None:
    while not _idle.empty():
        _idle.get_nowait().end()


def _forget() -> None:
    """Forget the helpers in a forked process: two processes would read each other's answers."""
    global _turns, _turns_of_copies, _idle
    _turns, _turns_of_copies = threading.BoundedSemaphore(_COPIES + 1), threading.BoundedSemaphore(_COPIES)
    _idle = queue.LifoQueue()


os.register_at_fork(after_in_child=_forget)


def _send(stream: BinaryIO | Any, value: object) -> None:
    content = pickle.dumps(value)
    stream.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> bytes:
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        raise EOFError("the other process has ended")
    content: bytes = stream.read(int.from_bytes(length, "big"))
    return content


def _serve() -> None:
    """Answer calls until the calling process ends; then exit at once, even during a call."""
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints must not become an answer

    def listen() -> None:
        try:
            while True:
                tasks.put(_receive(sys.stdin.buffer))
        except EOFError:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            function, args, kwargs = pickle.loads(tasks.get())  # noqa: S301 - from the process that started this one
            answer = (True, function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            answer = (False, error)
        _send(answers, answer)


if __name__ == "__main__":
    _serve()
