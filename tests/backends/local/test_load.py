"""Forks of a service under pgbench: its sums agree, its indexes are whole, and its crashes leave nothing."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from tests.backends.local.forks import append, create, fork, now, paths_of, rows_of, run_fork, snapshot
from tests.backends.local.hosts import new_server

_SUMS = """
    SELECT (SELECT sum(abalance) FROM public.pgbench_accounts), (SELECT sum(tbalance) FROM public.pgbench_tellers),
           (SELECT sum(bbalance) FROM public.pgbench_branches),
           (SELECT coalesce(sum(delta), 0) FROM public.pgbench_history),
           (SELECT count(*) FROM public.pgbench_history)
"""


def _run(backend: LocalBackend, server: Server, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {"PGHOST": str(paths_of(backend, server).sockets), "PGPORT": str(server.port), "PGUSER": "ramet"}
    return subprocess.Popen(
        [backend.instances.installations.default.program(program), *arguments, "postgres"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def _load(backend: LocalBackend, server: Server) -> Iterator[None]:
    """Run pgbench while the body runs, once it has gone round."""
    pgbench = _run(backend, server, "pgbench", "--client=2", "--time=3600", "--no-vacuum")
    try:
        eventually(lambda: _sums(backend, server)[-1] > 100)
        yield
        assert pgbench.poll() is None
    finally:
        pgbench.kill()
        pgbench.wait()


def _sums(backend: LocalBackend, server: Server) -> tuple[int, ...]:
    with connections.connect(paths_of(backend, server)) as connection:
        row = connection.execute(_SUMS.encode()).fetchone()
    assert row is not None
    return row


@pytest.mark.slow
def test_the_sums_of_every_fork_under_load_agree_and_its_indexes_are_whole(each_backend: LocalBackend) -> None:
    backend, parent = each_backend, create(each_backend)
    assert _run(backend, parent, "pgbench", "--initialize", "--quiet").wait() == 0
    snapshot_id, _ = snapshot(backend, parent)
    with _load(backend, parent):
        restore_time = now()
        forks = [fork(backend, parent).server]
        forks.append(fork(backend, parent, snapshot_id, restore_time).server)
        later_id, _ = snapshot(backend, parent)
        forks.append(fork(backend, parent, later_id).server)
        forks.append(fork(backend, parent, snapshot_id, now()).server)
    for child in forks:
        *sums, count = _sums(backend, child)
        assert len(set(sums)) == 1
        assert count > 100
        check = ("--install-missing", "--heapallindexed", "--parent-check", "--database")
        assert _run(backend, child, "pg_amcheck", *check).wait() == 0
    with connections.connect(paths_of(backend, parent)) as connection:
        query = "SELECT count(*) FROM public.pgbench_history WHERE pg_xact_commit_timestamp(xmin) <= %s"
        assert connection.execute(query, (restore_time,)).fetchone() == (_sums(backend, forks[1])[-1],)


@pytest.mark.crash
def test_a_process_killed_while_it_captures_leaves_nothing_and_the_next_one_continues(
    backend: LocalBackend, parent: Server
) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 2)
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for source in (Source(parent), Source(parent, snapshot_id=snapshot_id, target=now())):
        for _ in range(6):
            child = new_server(backend.instances)
            _kill_while_it_captures(backend, child, source, chance.uniform(0, 0.1))
            captured = backend.restore.capture(child, source)
            run_fork(backend, child, captured)
            assert rows_of(backend, child) == [1, 2], f"seed {seed}"
            root = paths_of(backend, child).root
            assert not [path.name for path in root.iterdir() if "unfinished" in path.name], f"seed {seed}"
            backend.servers.destroy(child.service_id)
    eventually(lambda: _platform_sessions(backend, parent) == 1)


def _kill_while_it_captures(backend: LocalBackend, child: Server, source: Source, seconds: float) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            backend.restore.capture(child, source)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _platform_sessions(backend: LocalBackend, server: Server) -> int:
    with connections.connect(paths_of(backend, server)) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])
