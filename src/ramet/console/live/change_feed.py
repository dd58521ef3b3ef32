"""The feed of changes: which services of a project changed. One query serves all open pages of the project.

An event names the services that changed, and pages fetch the context that show them. A page that reconnects sends the
version that it shows; when the project has changed since, it fetches everything once, so no change is lost.
"""

import asyncio
import hashlib
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from litestar.response.sse import ServerSentEventMessage

from ramet.control.overview import project_state
from ramet.control.plane import Plane

_POLL_SECONDS = 0.4
_REST = 15  # at least so many times its duration pass between two queries, so a huge project is queried less often
_KEEP_ALIVE_SECONDS = 15.0
_MAX_LISTED = 50


@dataclass(frozen=True)
class ProjectState:
    """A checksum of what pages show of each service, and `version`, a checksum of them all."""

    services: Mapping[str, int]
    version: str


_EMPTY = ProjectState({}, "")


class ChangeFeed:
    """The last state of each project, and when it is queried again. It may be used by several threads."""

    def __init__(self, plane: Plane, clock: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._clock = clock
        self._states: dict[str, tuple[float, ProjectState]] = {}
        self._lock = threading.Lock()
        self.closed = False

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self.closed = True

    def last_version(self, project_id: str) -> str:
        """Return the last known version without a query; empty when the project was never queried."""
        with self._lock:
            return self._states.get(project_id, (0.0, _EMPTY))[1].version

    def read(self, project_id: str) -> ProjectState:
        """Return the state of a project, at most a short time old."""
        with self._lock:
            due_at, state = self._states.get(project_id, (float("-inf"), _EMPTY))
            begun = self._clock()
            if begun >= due_at:
                state = _checksums(project_state(self._plane, project_id))
                ended = self._clock()
                self._states[project_id] = (ended + max(_POLL_SECONDS, _REST * (ended - begun)), state)
            return state


async def changes(feed: ChangeFeed, project_id: str, version: str) -> AsyncIterator[ServerSentEventMessage]:
    """Yield an event for each change of a project's services, and a comment as a keep-alive, until `close`.

    The first event says whether anything changed since the `version` that the page shows.
    """
    seen = await asyncio.to_thread(feed.read, project_id)
    yield ServerSentEventMessage("same" if seen.version == version else "*", event="hello")
    quiet_since = time.monotonic()
    while not feed.closed:
        await asyncio.sleep(_POLL_SECONDS)
        present = await asyncio.to_thread(feed.read, project_id)
        before, after = seen.services, present.services
        if changed := sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
            seen, quiet_since = present, time.monotonic()
            yield ServerSentEventMessage("*" if len(changed) > _MAX_LISTED else " ".join(changed), event="changed")
        elif time.monotonic() - quiet_since > _KEEP_ALIVE_SECONDS:
            quiet_since = time.monotonic()
            yield ServerSentEventMessage(None, comment="keep-alive")


def _checksums(state: Mapping[str, object]) -> ProjectState:
    services = {service_id: zlib.crc32(repr(shown).encode()) for service_id, shown in state.items()}
    return ProjectState(services, hashlib.blake2b(repr(sorted(services.items())).encode(), digest_size=8).hexdigest())
