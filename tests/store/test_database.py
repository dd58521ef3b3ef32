"""Transactions: what readers and writers see of each other, and what happens when the store is away."""

import resource
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.errors import Failed, Unavailable
from ramet.store import projects
from ramet.store.database import Store, epoch_seconds
from tests.store.values import a_project


def test_what_a_transaction_wrote_is_there_after_it_and_after_reopening(store: Store, url: str) -> None:
    with store.write() as tx:
        project = a_project(tx)
    store.close()
    again = Store.open(url)
    with again.read() as tx:
        assert projects.get_project(tx, project.id) == project
    again.close()


@pytest.mark.parametrize(
    "content", [b"this is no database, but a text of some length\n" * 100, b"\0" * 100 + b"x" * 9000]
)
def test_a_file_that_is_no_store_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ramet.db"
    path.write_bytes(content)
    with pytest.raises(Failed, match=f"{path} is damaged, or is no SQLite database"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == content


def test_a_store_that_is_damaged_while_it_is_used_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ramet.db"
    Store.open(f"sqlite:///{path}").close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises((Failed, Unavailable), match="damaged"):
        Store.open(f"sqlite:///{path}")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")

    def fill() -> None:
        with store.write() as tx:
            tx.exec_driver_sql("PRAGMA max_page_count = 1")
            tx.exec_driver_sql("CREATE TABLE filler AS SELECT zeroblob(1000000)")

    with pytest.raises(Unavailable, match="The disk of the store is full: Free space on it"):
        fill()
    store.close()


def test_a_full_disk_is_named_when_a_store_is_opened_that_was_closed_in_order(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ramet.db"
    Store.open(url).close()
    most, highest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, highest))  # as a full disk, it refuses the new file ramet.db-shm
    try:
        with pytest.raises(Unavailable, match="The disk of the store is full: Free space on it"):
            Store.open(url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, highest))


def test_a_transaction_that_raises_changes_nothing(store: Store) -> None:
    def write_and_fail() -> None:
        with store.write() as tx:
            a_project(tx)
            raise LookupError

    with pytest.raises(LookupError):
        write_and_fail()
    with store.read() as tx:
        assert projects.list_projects(tx) == []


def test_only_what_need_not_be_durable_goes_without_a_flush(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")
    flushes = []
    for durable in (True, False, True):
        with store.write(durable=durable) as tx:
            flushes.append(tx.scalar(sa.text("PRAGMA synchronous")))
    store.close()
    full, normal = 2, 1
    assert flushes == [full, normal, full]


def test_a_reader_waits_for_no_writer_and_sees_only_what_is_committed(store: Store) -> None:
    with store.write() as writer:
        a_project(writer)
        with store.read() as reader:
            assert projects.list_projects(reader) == []


def test_a_writer_waits_for_no_reader(store: Store) -> None:
    with store.read() as reader:
        assert projects.list_projects(reader) == []
        with store.write() as writer:
            a_project(writer)


def test_writers_in_many_threads_lose_nothing(store: Store) -> None:
    def write() -> None:
        for _ in range(20):
            with store.write() as tx:
                a_project(tx)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as tx:
        assert len(projects.list_projects(tx)) == 160


def test_a_client_waits_for_few_of_many_patient_writers(tmp_path: Path) -> None:
    store, order = Store.open(f"sqlite:///{tmp_path}/ramet.db"), list[str]()

    def write(name: str, *, patient: bool) -> None:
        with store.write(patient=patient):
            order.append(name)

    steps = [threading.Thread(target=write, args=("step",), kwargs={"patient": True}) for _ in range(8)]
    client = threading.Thread(target=write, args=("client",), kwargs={"patient": False})
    with store.write():
        for thread in (*steps, client):
            thread.start()
            eventually(partial(_waits, thread))
    for thread in (*steps, client):
        thread.join()
    assert order.index("client") <= 6  # some that are patient may come between, for the lock is not fair
    store.close()


def _waits(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "_held"


def test_the_stores_clock_is_that_of_the_world(store: Store) -> None:
    with store.read() as tx:
        assert abs(epoch_seconds(tx) - time.time()) < 5


def test_a_store_that_is_away_is_unavailable_and_can_be_used_again_later(store: Store) -> None:
    def fail(*_: object) -> None:
        raise sa.exc.OperationalError("connect", None, ConnectionError("away"))

    sa.event.listen(store.engine, "begin", fail)
    for transaction in (store.read, store.write):
        with pytest.raises(Unavailable), transaction():
            pass
    sa.event.remove(store.engine, "begin", fail)
    with store.write() as tx:
        a_project(tx)


def test_a_mistake_in_a_statement_is_not_taken_for_a_store_that_is_away(store: Store) -> None:
    with pytest.raises(sa.exc.DBAPIError), store.read() as tx:
        tx.execute(sa.text("SELECT FROM WHERE"))


def test_an_error_does_not_show_what_was_to_be_stored(store: Store) -> None:
    with pytest.raises(sa.exc.DBAPIError) as failure, store.write() as tx:
        tx.execute(sa.text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "hidden-word"})
    assert "hidden-word" not in str(failure.value)


def test_a_database_that_cannot_be_reached_is_unavailable_at_once() -> None:
    with pytest.raises(Unavailable) as refusal:
        Store.open("postgresql+psycopg://ramet:hidden-word@127.0.0.1:1/ramet")
    assert "hidden-word" not in str(refusal.value)


def test_connections_of_sqlite_sync_fully_and_check_references(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")
    with store.read() as tx:
        found = {name: tx.scalar(sa.text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")}
    store.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
