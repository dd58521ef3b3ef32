"""Applications that serve one world after the other: to register their routes takes longer than most tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from litestar import Litestar

from ramet.api.application import create_app
from ramet.console.application import Console
from ramet.console.context import ConsoleContext
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.events.stream import EventFeed


class _Current:
    """Stands for the object of the world that an application serves at present."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.found: object = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # Litestar checks the types of what it injects
        return self._kind

    def __getattr__(self, name: str) -> object:
        return getattr(self.found, name)


class _Application:
    def __init__(self, *, has_console: bool) -> None:
        self._plane, self._projects, self._context = _Current(Plane), _Current(Projects), _Current(ConsoleContext)
        self._feed = _Current(EventFeed)
        console = Console(cast("ConsoleContext", self._context))
        self.app = create_app(
            cast("Plane", self._plane),
            cast("Projects", self._projects),
            version="1",
            event_feed=cast("EventFeed", self._feed),
            beside=console.routes() if has_console else (),
            refuse_beside=console.refuse if has_console else None,
        )

    def serve(self, plane: Plane, projects: Projects, context: ConsoleContext | None) -> None:
        self._plane.found, self._projects.found, self._context.found = plane, projects, context
        self._feed.found = EventFeed(plane.store)


_idle: dict[bool, list[_Application]] = {False: [], True: []}


@contextmanager
def application(plane: Plane, projects: Projects, console: Console | None = None) -> Iterator[Litestar]:
    """Lend an application over these verbs, with the console if one is given."""
    idle = _idle[console is not None]
    lent = idle.pop() if idle else _Application(has_console=console is not None)
    lent.serve(plane, projects, console.context if console else None)
    yield lent.app
    idle.append(lent)
