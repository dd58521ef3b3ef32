"""The one way to wait: look until a condition holds, with a bound that only ends what would wait forever."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

# Far beyond what any condition takes on a busy machine: an outcome must not depend on the load.
BOUND_SECONDS = 120.0
_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1


def eventually(
    seen: Callable[[], bool],
    what: str | Callable[[], str] = "the condition",
    pause_seconds: float = _PAUSE_SECONDS,
    *,
    seconds: float = BOUND_SECONDS,
) -> None:
    """Wait until `seen` returns True. Raises TimeoutError that names what did not come.

    The pauses grow with the time that passed, for each look may cost what is waited for the CPU that it needs.
    """
    begun = time.monotonic()
    while not seen():
        elapsed = time.monotonic() - begun
        if elapsed > seconds:
            raise TimeoutError(f"{what if isinstance(what, str) else what()} did not come within {seconds:g} s")
        time.sleep(max(pause_seconds, min(elapsed / 20, _LONGEST_PAUSE_SECONDS)))


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
