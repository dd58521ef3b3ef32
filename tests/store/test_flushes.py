"""Early commits: one flush serves several, and nobody who writes goes on before what it has seen is on disk."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.errors import Unavailable
from ramet.store import flushes, projects
from ramet.store.database import Store
from ramet.store.turns import Turns
from tests.store.values import a_project


class Disk:
    """Counts the flushes of files, and lets them wait or fail."""

    def __init__(self) -> None:
        self.flushed: list[str] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.error: OSError | None = None

    def flush(self, log: int) -> None:
        self.flushed.append(str(Path(f"/proc/self/fd/{log}").readlink()))
        assert self.may_end.wait(30)
        if self.error is not None:
            raise self.error

    @property
    def begun(self) -> int:
        return len(self.flushed)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(flushes, "_fsync", made.flush)
    return made


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ramet.db"


@pytest.fixture
def store(url: str, disk: Disk) -> Iterator[Store]:
    opened = Store.open(url)
    yield opened
    opened.close()


def write(store: Store, *, early: bool = True, durable: bool = True) -> None:
    with store.write(early=early, durable=durable) as tx:
        a_project(tx)


def count(store: Store) -> int:
    with store.read() as tx:
        return len(projects.list_projects(tx))


def test_an_early_transaction_is_flushed_by_itself_and_others_by_sqlite(store: Store, disk: Disk) -> None:
    write(store, early=False)
    write(store, durable=False, early=False)
    assert disk.begun == 0
    write(store)
    assert disk.begun == 1
    write(store, durable=False)
    assert disk.begun == 1


def test_a_flush_serves_all_commits_before_it_and_holds_up_no_writer(store: Store, disk: Disk) -> None:
    disk.may_end.clear()
    writers = [threading.Thread(target=write, args=(store,)) for _ in range(6)]
    for writer in writers:
        writer.start()
    eventually(lambda: count(store) == 6, "all have committed, while the first flush goes on")
    assert disk.begun == 1
    assert all(writer.is_alive() for writer in writers)
    disk.may_end.set()
    for writer in writers:
        writer.join()
    assert disk.begun <= 2


@pytest.mark.parametrize("is_another_process", [False, True])
def test_who_writes_waits_for_the_flush_of_what_it_has_seen(
    store: Store, disk: Disk, url: str, is_another_process: bool
) -> None:
    other = Store.open(url) if is_another_process else store
    disk.may_end.clear()
    writer = threading.Thread(target=write, args=(store,))
    worker = threading.Thread(target=write, args=(other,), kwargs={"durable": False})
    writer.start()
    eventually(lambda: count(store) == 1, "the commit")
    worker.start()
    eventually(lambda: count(store) == 2, "the commit of the second one")
    assert worker.is_alive()
    disk.may_end.set()
    for thread in (writer, worker):
        thread.join()
    assert disk.begun == (2 if is_another_process else 1)
    other.close()


def test_who_tells_others_waits_for_the_flush_of_what_it_has_read(store: Store, disk: Disk) -> None:
    found: list[int] = []

    def tell() -> None:
        with store.read(settled=True) as tx:
            found.append(len(projects.list_projects(tx)))

    disk.may_end.clear()
    writer, teller = threading.Thread(target=write, args=(store,)), threading.Thread(target=tell)
    writer.start()
    eventually(lambda: count(store) == 1, "the commit")
    teller.start()
    eventually(lambda: found == [1], "that it was read")
    assert teller.is_alive()
    disk.may_end.set()
    for thread in (writer, teller):
        thread.join()
    assert disk.begun == 1


def test_a_commit_of_a_process_that_was_killed_before_its_flush_is_flushed_by_others(
    store: Store, disk: Disk, url: str
) -> None:
    disk.error = OSError(errno.EINTR, "as if the process had ended here")
    with pytest.raises(Unavailable):
        write(store)
    disk.error = None
    other = Store.open(url)
    write(other, durable=False)
    write(other, durable=False)
    assert disk.begun == 2
    other.close()


def test_after_a_failed_flush_nothing_counts_as_written_until_the_next_start(
    store: Store, disk: Disk, url: str
) -> None:
    disk.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(Unavailable, match=r"could not be flushed.*: See to the disk, and start Ramet again"):
        write(store)
    disk.error = None
    other = Store.open(url)
    write(other)
    for durable in (True, False):
        with pytest.raises(Unavailable):
            write(store, durable=durable)
    with pytest.raises(Unavailable), store.read(settled=True):
        pass
    assert (disk.begun, count(store)) == (2, 2)
    other.close()


def test_without_a_file_that_processes_share_nothing_is_early_and_all_is_flushed(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "ramet.db.turn").mkdir()
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")
    with store.write(early=True) as tx:
        assert tx.scalar(sa.text("PRAGMA synchronous")) == 2
    write(store, durable=False)
    assert disk.begun == 2
    store.close()


def test_the_log_is_found_through_a_link(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ramet.db").symlink_to(tmp_path / "elsewhere" / "store.db")
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")
    write(store)
    assert disk.flushed == [f"{tmp_path}/elsewhere/store.db-wal"]
    store.close()


def test_a_log_that_is_gone_was_flushed_by_sqlite(tmp_path: Path) -> None:
    made = flushes.Flushes(str(tmp_path / "ramet.db"), Turns(tmp_path / "ramet.db.turn"))
    made.settle(None)


def test_a_new_log_is_opened_in_place_of_one_that_is_gone(store: Store, disk: Disk, tmp_path: Path) -> None:
    write(store)
    store.engine.dispose()  # with its last connection SQLite removes the log
    write(store)
    assert disk.flushed == [f"{tmp_path}/ramet.db-wal"] * 2
