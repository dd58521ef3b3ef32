"""Waiting for a condition that nothing announces."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout_seconds: float, pause_seconds: float = 0.001) -> bool:
    """Check a condition until it holds; return False when it does not hold within the time. Checks at least once."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_seconds)
    return True
