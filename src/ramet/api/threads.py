"""The threads of HTTP: in them requests wait for locks, disks, servers, and databases elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from litestar import Litestar

THREADS = 48
"""Twice as many as may wait for databases (control/slots.py), and fewer than there are connections to the store."""


@asynccontextmanager
async def own_threads(_application: Litestar) -> AsyncIterator[None]:
    """Give the event loop that serves so many threads, made on demand. Its own default is 6 on two processors."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "http"))
    yield  # the runner of the loop ends them
