"""The threads of HTTP: in them requests wait for locks, disks, servers, and databases elsewhere."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from litestar import Litestar

from ramet import acting
from ramet.control.plane import Plane
from ramet.control.slots import Slots
from ramet.errors import Unavailable

THREADS = 48
"""Twice as many as may wait for databases (control/slots.py), and fewer than there are connections to the store."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


def own_threads(plane: Plane) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Return what gives the event loop that serves its threads, made on demand. Its own default is 6 on two processors.

    As many connections may wait for a thread as streams and other requests that wait may hold.
    """

    @asynccontextmanager
    async def lifespan(_application: Litestar) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(Threads(THREADS, Slots(plane.held.most)))
        yield  # the runner of the loop ends them

    return lifespan


@dataclass(eq=False)
class _Call:
    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)
    is_refused: bool = False

    def __call__(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.function()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Threads(ThreadPoolExecutor):
    """Threads that projects share: each takes only as many as it leaves free, and what else it asks for waits.

    So the others are served while the databases of one do not answer. Requests without a key share as one project does.
    """

    def __init__(self, most: int, places: Slots) -> None:
        """`places` are those of calls that wait for a thread."""
        super().__init__(most, "http")
        self._free, self._places = Slots(most), places
        self._waiting: dict[str, deque[_Call]] = defaultdict(deque)
        self._lock = threading.Lock()

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        """Call a function in a thread. Raises Unavailable when too many calls of the project wait for one."""
        project_id, call = _project_of_act(), _Call(partial(fn, *args, **kwargs))
        with self._lock:
            if project_id not in self._waiting and self._free.acquire(project_id):
                self._begin(project_id, call)
            elif self._places.acquire(project_id):
                self._waiting[project_id].append(call)
            else:
                wrong = "Too many requests of the project are waiting for a thread"
                raise Unavailable("TOO_MANY_WAITING", wrong, "Try again when some of them have been answered.")
        return cast("Future[Result]", call.future)

    def _begin(self, project_id: str, call: _Call) -> None:
        try:
            super().submit(self._run, project_id, call)
        except RuntimeError:  # no thread could be started, but the call is in the queue of the others
            if call.future.cancel():
                call.is_refused = True  # a thread may not come to it for long
                self._free.release(project_id)
                raise

    def _run(self, project_id: str, call: _Call) -> None:
        try:
            call()
        finally:
            with self._lock:
                if not call.is_refused:
                    self._free.release(project_id)
                self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Give threads to those who wait, and may have one more now. Projects take turns."""
        for project_id in list(self._waiting):
            if not self._free.acquire(project_id):
                continue
            calls = self._waiting.pop(project_id)
            call = calls.popleft()
            if calls:
                self._waiting[project_id] = calls
            self._places.release(project_id)
            with suppress(RuntimeError):  # no thread could be started: the call is in the queue of this one
                super().submit(self._run, project_id, call)

    def _adjust_thread_count(self) -> None:
        """Start threads until there is one for each call. Raises RuntimeError where none can be started.

        The executor counts idle threads too, and wrongly after calls for which none could be started: each of those
        counts as one more when it is over.
        """
        self._idle_semaphore = threading.Semaphore(0)
        while len(self._threads) < self._free.taken():
            super()._adjust_thread_count()  # an idle thread may have been counted since: then this starts none


def _project_of_act() -> str:
    """Return the project of the key that the current act has shown; empty without one."""
    act = acting.current()
    return "" if act is None or act.actor.kind != "key" else act.project_id or ""
