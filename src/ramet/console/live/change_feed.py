"""The feed of changes: which services of a project changed. One query serves all open pages of the project.

An event names the services that changed, and pages fetch the parts that show them. A page that reconnects sends the
version that it shows; when the project has changed since, it fetches everything once, so no change is lost.
"""

import asyncio
import hashlib
import threading
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass

from litestar.response.sse import ServerSentEventMessage

from ramet.control.overview import project_state
from ramet.control.plane import Plane
from ramet.model.keys import ApiKey

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
_Viewed = tuple[str, str | None]


class ChangeFeed:
    """The last state of each project, and when it is queried again. It may be used by several threads."""

    def __init__(self, plane: Plane, clock: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._clock = clock
        self._states: dict[_Viewed, tuple[float, ProjectState]] = {}
        self._lock = threading.Lock()
        self.closed = False

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self.closed = True

    def last_version(self, key: ApiKey) -> str:
        """Return the last known version without a query; empty when what the key sees was never queried."""
        with self._lock:
            return self._states.get(_viewed(key), (0.0, _EMPTY))[1].version

    def read(self, key: ApiKey) -> ProjectState:
        """Return the state of what a key sees of its project, at most a short time old."""
        with self._lock:
            due_at, state = self._states.get(_viewed(key), (float("-inf"), _EMPTY))
            begun = self._clock()
            if begun >= due_at:
                state = _checksums(project_state(self._plane.on_behalf_of(key), key.project_id))
                ended = self._clock()
                self._states[_viewed(key)] = (ended + max(_POLL_SECONDS, _REST * (ended - begun)), state)
            return state


def _viewed(key: ApiKey) -> _Viewed:
    """Return the project of a key, and the key itself where it does not see all of that."""
    return key.project_id, key.public_key if key.sees_own_only else None


async def changes(
    feed: ChangeFeed, key: ApiKey, version: str, is_open: Callable[[], bool]
) -> AsyncGenerator[ServerSentEventMessage, None]:
    """Yield an event for each change of the services that a key sees, and a comment as a keep-alive.

    It ends with `close`, and before the first event for which the session is not open any more. The first event says
    whether anything changed since the `version` that the page shows.
    """
    seen = await asyncio.to_thread(feed.read, key)
    yield ServerSentEventMessage("same" if seen.version == version else "*", event="hello")
    quiet_since = time.monotonic()
    while not feed.closed:
        await asyncio.sleep(_POLL_SECONDS)
        present = await asyncio.to_thread(feed.read, key)
        before, after = seen.services, present.services
        is_quiet = before == after and time.monotonic() - quiet_since <= _KEEP_ALIVE_SECONDS
        if not is_quiet and not await asyncio.to_thread(is_open):
            return
        if changed := sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
            seen, quiet_since = present, time.monotonic()
            yield ServerSentEventMessage("*" if len(changed) > _MAX_LISTED else " ".join(changed), event="changed")
        elif not is_quiet:
            quiet_since = time.monotonic()
            yield ServerSentEventMessage(None, comment="keep-alive")


def _checksums(state: Mapping[str, object]) -> ProjectState:
    services = {service_id: zlib.crc32(repr(shown).encode()) for service_id, shown in state.items()}
    return ProjectState(services, hashlib.blake2b(repr(sorted(services.items())).encode(), digest_size=8).hexdigest())
