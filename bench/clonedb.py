"""CREATE DATABASE with file_copy_method=clone (PostgreSQL 18): a copy of a database without sessions in one server."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from bench.bare import Bare
from bench.data import scale_of
from ramet.machine.installation import find_installations

_FIRST_MAJOR = 18
_SETTINGS = ("file_copy_method=clone", "io_method=sync", "max_wal_size=8GB")


@contextlib.contextmanager
def database_clones(means: Bare, room: Path, size_mb: int) -> Iterator["DatabaseClones | None"]:
    """Yield a server with a database of such a size, or None where no PostgreSQL is new enough."""
    found = [one for one in find_installations().found if one.major >= _FIRST_MAJOR]
    if not found:
        yield None
        return
    newest = Bare(found[0].bin, means.user, means.sockets / "newest")
    newest.sockets.mkdir(mode=0o700, exist_ok=True)
    newest.own(newest.sockets)
    data = room / "newest"
    newest.initialize(data)
    with newest.serving(data, _SETTINGS):
        clones = DatabaseClones(newest)
        clones.fill(size_mb)
        yield clones


class DatabaseClones:
    """Copies of the database `postgres` of a running server."""

    def __init__(self, means: Bare) -> None:
        self._means = means

    def fill(self, size_mb: int) -> None:
        """Make pgbench's tables, and flush them."""
        with self._connect("template1") as connection:
            connection.execute("CREATE DATABASE source")
        command = [self._means.program("pgbench"), "-i", "-I", "dtGvp", "-q", "-s", str(scale_of(size_mb))]
        where = ["-h", str(self._means.sockets), "-p", str(self._means.port), "-U", "ramet", "source"]
        subprocess.run([*command, *where], check=True, capture_output=True)
        with self._connect("template1") as connection:
            connection.execute("CHECKPOINT")

    def clone(self) -> float:
        """Clone the database and ask the clone for 1; return the milliseconds."""
        begun = time.perf_counter()
        with self._connect("template1") as connection:
            connection.execute("CREATE DATABASE fork TEMPLATE source STRATEGY file_copy")
            with self._connect("fork") as clone:
                clone.execute("SELECT 1")
            taken = 1000 * (time.perf_counter() - begun)
            connection.execute("DROP DATABASE fork")
        return taken

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        host, port = str(self._means.sockets), self._means.port
        return psycopg.connect(host=host, port=port, user="ramet", dbname=database, autocommit=True)
