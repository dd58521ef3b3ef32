"""When a server that is down is started again, and how that is logged."""

import logging
import time
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass
class Restarts:
    """What this process has seen of each server. The pauses between restarts of the same server double."""

    _next: dict[str, tuple[float, float]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def note_serving(self, key: str) -> None:
        """Record that a server serves: its next restart is due at once."""
        self._seen.add(key)
        self._next.pop(key, None)

    def is_due(self, key: str) -> bool:
        """Tell whether a server that is down is to be started now."""
        now = time.monotonic()
        due, pause = self._next.get(key, (now, _FIRST_PAUSE_SECONDS))
        if now < due:
            return False
        self._next[key] = (now + pause, min(pause * 2, _LONGEST_PAUSE_SECONDS))
        return True

    def log(self, key: str, message: str) -> None:
        """Log a restart as a warning, but as information where this process has not seen the server before.

        Servers are down at a normal start: 'ramet down' or the shutdown of the host stopped them.
        """
        _log.log(logging.WARNING if key in self._seen else logging.INFO, "%s", message)
        self._seen.add(key)
