"""Changes told to open pages as they happen: server-sent events, with one look at the store for all tabs of a project.

An event names the services that changed; the pages then fetch what they show of them. Nothing is lost with a
connection: a page that connects again fetches everything once.
"""

import asyncio
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping

from ramet.control.control import Control
from ramet.control.overview import project_state

_LOOK_SECONDS = 0.4
_REST = 15  # a look is followed by a rest of so many times its length: a huge project is looked at less often
_PING_SECONDS = 15.0
_LONGEST_LIST = 50

Pulse = Mapping[str, int]


class Pulses:
    """The last look at each project, and when the next one is due."""

    def __init__(self, control: Control, clock: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._clock = clock
        self._looks: dict[str, tuple[float, Pulse]] = {}
        self._lock = threading.Lock()
        self.closed = False

    def close(self) -> None:
        """Let every stream end, so that the server can."""
        self.closed = True

    def look(self, project_id: str) -> Pulse:
        """Return a number for each service of a project that changes when anything shown of it does."""
        with self._lock:
            due_at, pulse = self._looks.get(project_id, (float("-inf"), {}))
            begun = self._clock()
            if begun >= due_at:
                state = project_state(self._control, project_id)
                pulse = {service_id: zlib.crc32(repr(shown).encode()) for service_id, shown in state.items()}
                ended = self._clock()
                self._looks[project_id] = (ended + max(_LOOK_SECONDS, _REST * (ended - begun)), pulse)
            return pulse


async def changes(pulses: Pulses, project_id: str) -> AsyncIterator[bytes]:
    """Yield an event for each change of a project's services, and a comment now and then, until `close`."""
    seen = await asyncio.to_thread(pulses.look, project_id)
    yield b"retry: 1000\nevent: hello\ndata: *\n\n"
    quiet_since = time.monotonic()
    while not pulses.closed:
        await asyncio.sleep(_LOOK_SECONDS)
        present = await asyncio.to_thread(pulses.look, project_id)
        if changed := [key for key in seen.keys() | present.keys() if seen.get(key) != present.get(key)]:
            seen, quiet_since = present, time.monotonic()
            yield f"event: changed\ndata: {_listed(changed)}\n\n".encode()
        elif time.monotonic() - quiet_since > _PING_SECONDS:
            quiet_since = time.monotonic()
            yield b": still here\n\n"


def _listed(service_ids: list[str]) -> str:
    return "*" if len(service_ids) > _LONGEST_LIST else " ".join(sorted(service_ids))
