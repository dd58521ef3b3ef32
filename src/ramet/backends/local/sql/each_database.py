"""Run a function in many databases of a server, in a few concurrent sessions."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import database_of

_SESSIONS_AT_ONCE = 4
_Found = TypeVar("_Found")


def in_each(
    paths: ServicePaths, connection: Connection, databases: Sequence[str], work: Callable[[Connection], _Found]
) -> dict[str, _Found]:
    """Return the result of `work` in each database, in their order; `connection` is an open one, which is reused.

    The first session in a database after a start is slow, because it fills the caches of later ones.
    """
    own = database_of(connection)
    with ThreadPoolExecutor(_SESSIONS_AT_ONCE, "databases") as sessions:
        others = {name: sessions.submit(_inside, paths, name, work) for name in databases if name != own}
        return {name: others[name].result() if name in others else work(connection) for name in databases}


def _inside(paths: ServicePaths, database: str, work: Callable[[Connection], _Found]) -> _Found:
    with connections.connect(paths, database) as connection:
        return work(connection)
