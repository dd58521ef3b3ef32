"""A tenant fills the storage by its own writes: it becomes read-only in time, its server stays up, and it is freed."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from harness.instance import FREQUENT_SNAPSHOTS, Instance, connect, running_instance
from harness.waiting import eventually
from ramet.backends.local.process.identity import find_server
from ramet.backends.local.volumes.disk_usage import free_bytes
from tests.crash.test_space import ballast

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.root]


@dataclass
class Filler:
    """A client that writes until it may not."""

    port: int
    password: str
    refusals: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.is_set() and not self.refusals:
            try:
                with connect(self.port, self.password) as connection:
                    while not self.over.is_set():
                        connection.execute("INSERT INTO big SELECT repeat('x', 1000) FROM generate_series(1, 3000)")
            except psycopg.errors.ReadOnlySqlTransaction as refused:
                self.refusals.append(str(refused))
            except psycopg.OperationalError:
                self.over.wait(0.05)  # its session was ended in the middle of a write


@pytest.fixture
def instance() -> Iterator[Instance]:
    # No snapshot that would hold the table when it is dropped.
    never = {"RAMET_SNAPSHOT_SECONDS": "3600", "RAMET_SNAPSHOT_WAL_MBS": "4096"}
    small = {"RAMET_IMAGE_GBS": "1", "RAMET_STORAGE_DRIVER": "reflink"}
    with running_instance(None, **{**FREQUENT_SNAPSHOTS, **small, **never}) as made:
        yield made


def test_a_tenant_that_fills_the_storage_becomes_read_only_and_its_server_stays_up(instance: Instance) -> None:
    made = instance.call("POST", "/services", {"name": "shop"}).json()
    port, password, path = made["endpoint"]["port"], made["initial_password"], f"/services/{made['service_id']}"

    def shown() -> Any:
        return instance.call("GET", path).json()

    eventually(lambda: shown()["status"] == "READY", lambda: str(shown()), 0.05)
    with connect(port, password) as connection:
        connection.execute("CREATE TABLE big (t text)")
        connection.execute("CREATE TABLE small AS SELECT 1 AS n")
    server = find_server(instance.backend.instances.paths(made["service_id"]))
    filler = Filler(port, password)
    thread = threading.Thread(target=filler.run)
    thread.start()
    try:
        eventually(lambda: bool(filler.refusals), "the client is refused", 0.05)
    finally:
        filler.over.set()
        thread.join()
    assert "read-only" in filler.refusals[0]
    eventually(lambda: "storage_warning" in shown()["metadata"], "the alarm", 0.05)
    assert "MiB left" in shown()["metadata"]["storage_warning"]
    with connect(port, password) as connection:
        assert connection.execute("SELECT n FROM small").fetchone() == (1,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("INSERT INTO small VALUES (2)")
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("DROP TABLE big")
    eventually(lambda: "storage_warning" not in shown()["metadata"], lambda: room(instance), 0.05)
    with connect(port, password) as connection:
        connection.execute("INSERT INTO small VALUES (2)")
    assert find_server(instance.backend.instances.paths(made["service_id"])) == server
    assert shown()["status"] == "READY"


def room(instance: Instance) -> str:
    with contextlib.suppress(OSError):
        return f"the end of the alarm: {free_bytes(instance.backend.pool.path) // 1024**2} MiB are free"
    return "the end of the alarm"


def test_tables_can_be_dropped_and_rows_vacuumed_where_not_a_byte_is_left(instance: Instance) -> None:
    made = instance.call("POST", "/services", {"name": "shop"}).json()
    port, password, path = made["endpoint"]["port"], made["initial_password"], f"/services/{made['service_id']}"

    def shown() -> Any:
        return instance.call("GET", path).json()

    eventually(lambda: shown()["status"] == "READY", lambda: str(shown()), 0.05)
    pool = instance.backend.pool.path
    eventually((pool / "reserve").exists, "the reserve", 0.05)
    with connect(port, password) as connection:
        for table in ("big", "small"):
            rows = "SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
            connection.execute(f"CREATE TABLE {table} AS {rows}".encode())
    server = find_server(instance.backend.instances.paths(made["service_id"]))
    with ballast(pool, 0):
        eventually(lambda: "storage_warning" in shown()["metadata"], "the alarm", 0.05)
        eventually(lambda: not (pool / "reserve").exists(), "the reserve is given back", 0.05)
        with connect(port, password) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("DROP TABLE big")
            connection.execute("DELETE FROM small")
            connection.execute("VACUUM small")
            assert connection.execute("SELECT count(*) FROM small").fetchone() == (0,)
        assert find_server(instance.backend.instances.paths(made["service_id"])) == server
    eventually(lambda: "storage_warning" not in shown()["metadata"], lambda: room(instance), 0.05)
    eventually((pool / "reserve").exists, "the reserve is created again", 0.05)
