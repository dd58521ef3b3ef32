"""The one way to wait: look until a condition holds, with a bound that only ends what would wait forever."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

# Far beyond what any condition takes on a busy machine: an outcome must not depend on the load.
BOUND_SECONDS = 120.0
_PAUSE_SECONDS = 0.005


def eventually(
    seen: Callable[[], bool],
    what: str | Callable[[], str] = "the condition",
    pause_seconds: float = _PAUSE_SECONDS,
    *,
    seconds: float = BOUND_SECONDS,
) -> None:
    """Wait until `seen` returns True. Raises TimeoutError that names what did not come."""
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what if isinstance(what, str) else what()} did not come within {seconds:g} s")
        time.sleep(pause_seconds)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block: a process that was started and not yet recorded would never be stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt
