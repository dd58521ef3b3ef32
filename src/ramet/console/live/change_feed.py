"""Changes told to open pages as they happen: server-sent events, with one look at the store for all tabs of a project.

An event names the services that changed; the pages then fetch what they show of them. Nothing is lost with a
connection: a page fetches everything once when it connects again, and when something changed while it was on its way.
"""

import asyncio
import hashlib
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from ramet.control.overview import project_state
from ramet.control.plane import Plane

_LOOK_SECONDS = 0.4
_REST = 15  # a look is followed by a rest of so many times its length: a huge project is looked at less often
_PING_SECONDS = 15.0
_LONGEST_LIST = 50


@dataclass(frozen=True)
class Pulse:
    """A look at a project: a number for each service that changes when anything shown of it does; `version`: of all."""

    services: Mapping[str, int]
    version: str


_NOTHING = Pulse({}, "")


class Pulses:
    """The last look at each project, and when the next one is due."""

    def __init__(self, plane: Plane, clock: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._clock = clock
        self._looks: dict[str, tuple[float, Pulse]] = {}
        self._lock = threading.Lock()
        self.closed = False

    def close(self) -> None:
        """Let every stream end, so that the server can."""
        self.closed = True

    def last_version(self, project_id: str) -> str:
        """Return the version of the last look, without another one; empty when there was none."""
        with self._lock:
            return self._looks.get(project_id, (0.0, _NOTHING))[1].version

    def look(self, project_id: str) -> Pulse:
        """Return how a project looks now, or looked a moment ago."""
        with self._lock:
            due_at, pulse = self._looks.get(project_id, (float("-inf"), _NOTHING))
            begun = self._clock()
            if begun >= due_at:
                pulse = _pulse(project_state(self._plane, project_id))
                ended = self._clock()
                self._looks[project_id] = (ended + max(_LOOK_SECONDS, _REST * (ended - begun)), pulse)
            return pulse


async def changes(pulses: Pulses, project_id: str, version: str) -> AsyncIterator[bytes]:
    """Yield an event for each change of a project's services, and a comment now and then, until `close`.

    The first one tells whether anything changed since the `version` that a page shows.
    """
    seen = await asyncio.to_thread(pulses.look, project_id)
    yield f"event: hello\ndata: {'same' if seen.version == version else '*'}\n\n".encode()
    quiet_since = time.monotonic()
    while not pulses.closed:
        await asyncio.sleep(_LOOK_SECONDS)
        present = await asyncio.to_thread(pulses.look, project_id)
        if changed := _differing(seen.services, present.services):
            seen, quiet_since = present, time.monotonic()
            yield f"event: changed\ndata: {_listed(changed)}\n\n".encode()
        elif time.monotonic() - quiet_since > _PING_SECONDS:
            quiet_since = time.monotonic()
            yield b": still here\n\n"


def _pulse(state: Mapping[str, object]) -> Pulse:
    services = {service_id: zlib.crc32(repr(shown).encode()) for service_id, shown in state.items()}
    return Pulse(services, hashlib.blake2b(repr(sorted(services.items())).encode(), digest_size=8).hexdigest())


def _differing(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    return [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]


def _listed(service_ids: list[str]) -> str:
    return "*" if len(service_ids) > _LONGEST_LIST else " ".join(sorted(service_ids))
