"""Connections to the store break repeatedly: operations continue, and each step still counts once."""

import threading
import time

import psycopg
import pytest

from ramet.operations.worker import Worker
from ramet.store.database import Store
from tests.operations.effects import STEPS, Host, counting, is_over, make_table, submitted, written

pytestmark = pytest.mark.crash
BOUND_SECONDS = 60.0
_BREAK_ALL = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
"""


def break_connections(url: str, stop: threading.Event, broken: list[int]) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        while not stop.wait(0.03):
            row = connection.execute(_BREAK_ALL).fetchone()
            broken.append(0 if row is None else row[0])


def test_steps_count_once_although_connections_break(postgresql_url: str, host: Host) -> None:
    store = Store.open(postgresql_url)
    make_table(store)
    ids = [submitted(store) for _ in range(30)]
    stop, broken = threading.Event(), list[int]()
    breaker = threading.Thread(target=break_connections, args=(postgresql_url, stop, broken))
    worker = Worker(store, [counting(host)], lease_seconds=0.5)
    breaker.start()
    worker.start()
    deadline = time.monotonic() + BOUND_SECONDS
    try:
        while sum(broken) < 40:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        stop.set()
        breaker.join()
    while not all(is_over(store, operation_id) for operation_id in ids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert worker.stop()
    store.close()
    again = Store.open(postgresql_url)
    assert {tuple(written(again, operation_id)) for operation_id in ids} == {STEPS}
    again.close()
