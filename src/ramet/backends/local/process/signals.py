"""Signalling and awaiting processes by pidfd, so that a process which got a reused pid is never affected."""

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ramet.backends.local.process.identity import processes_in, works_in
from ramet.machine.waiting import wait_until

_END_SECONDS, _PAUSE_SECONDS = 10.0, 0.02


@contextlib.contextmanager
def handle_of(pid: int) -> Iterator[int | None]:
    """Open a handle of a process, None when it does not exist."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def has_ended(handle: int, timeout_seconds: float) -> bool:
    """Wait for the end of a process for at most `timeout_seconds`; True when it has ended."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(timeout_seconds * 1000))


def send(pid: int, number: signal.Signals, is_ours: Callable[[], bool], *, wait_seconds: float = 0.0) -> bool:
    """Signal a process, and wait for its end for at most `wait_seconds`; False when it does not exist or is not ours.

    `is_ours` is checked after the handle is open.
    """
    with handle_of(pid) as handle:
        if handle is None or not is_ours():
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
            if wait_seconds:
                has_ended(handle, wait_seconds)
        return True


def end_all_in(*directories: Path) -> bool:
    """Kill the processes that work in these directories; False when some have not ended within ten seconds."""

    def are_gone() -> bool:
        left = [(pid, place) for place in directories for pid in processes_in(place)]
        for pid, place in left:
            send(pid, signal.SIGKILL, partial(works_in, pid, place))
        return not left

    return wait_until(are_gone, _END_SECONDS, _PAUSE_SECONDS)
