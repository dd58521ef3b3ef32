"""How late the event loop of HTTP is: when it is, every client waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from litestar import Litestar

_EVERY_SECONDS = 0.5


def watch_loop(observe: Callable[[float], None]) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Return what measures the event loop while an application serves in it."""

    @asynccontextmanager
    async def watching(_application: Litestar) -> AsyncIterator[None]:
        task = asyncio.create_task(_measure(observe))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return watching


async def _measure(observe: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        observe(max(0.0, loop.time() - due))
