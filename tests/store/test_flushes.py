"""Early commits: one flush serves several, and nobody who writes goes on before what it has seen is on disk."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.errors import Unavailable
from ramet.store import flushes, projects
from ramet.store.database import Store
from ramet.store.turns import Turns
from tests.store.values import a_project


class Disk:
    """Counts the flushes, and lets them wait or fail."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.error: OSError | None = None

    def flush(self, _path: str) -> None:
        self.begun += 1
        assert self.may_end.wait(30)
        if self.error is not None:
            raise self.error


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


def test_a_process_that_was_killed_in_a_commit_holds_up_nobody(store: Store, disk: Disk, url: str) -> None:
    write(store)
    assert store._flushes is not None
    store._flushes._shared()[flushes._BEGUN] += 1
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
    for durable in (True, False):
        with pytest.raises(Unavailable):
            write(store, durable=durable)
    assert disk.begun == 1
    again = Store.open(url)
    write(again)
    again.close()


def test_where_the_file_of_numbers_cannot_be_made_a_process_knows_its_own_commits(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "ramet.flushes").mkdir()
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")
    write(store)
    assert (disk.begun, count(store)) == (1, 1)
    store.close()


def test_a_log_that_is_gone_was_flushed_by_sqlite(tmp_path: Path) -> None:
    made = flushes.Flushes(tmp_path / "ramet.db", Turns(tmp_path / "ramet.turn"))
    with made.commit():
        pass
    made.settle()
