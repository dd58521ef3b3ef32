"""A backup of the store is complete, private and consistent, also while others write."""

import errno
import sqlite3
import stat
import threading
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from ramet.configured import back_up_store, open_store
from ramet.control.plane import utc_now
from ramet.control.projects import Projects
from ramet.errors import Failed
from ramet.model.life_span import LifeSpan
from ramet.settings import load_settings, make_data_dir
from ramet.store import backup, consistency, services
from ramet.store.backup import copy_sqlite
from ramet.store.database import Store
from ramet.store.warm_forks import unclaimed_forks
from tests.api.world import open_world

DOCS = Path(__file__).parents[2] / "docs"


def full(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = code
    return error


def names(store: Store) -> list[str]:
    return [project.name for project in Projects(store).list_projects()]


def test_a_store_that_is_no_database_is_not_copied_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "ramet.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Failed, match="is no SQLite database"):
        copy_sqlite(tmp_path / "ramet.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("name", ["a%20b", "what?"])
def test_a_backup_is_in_its_directory_whatever_that_is_named(tmp_path: Path, name: str) -> None:
    for directory in ("data", name):
        (tmp_path / directory).mkdir()
    Store.open(f"sqlite:///{tmp_path}/data/ramet.db").close()
    copy_sqlite(tmp_path / "data" / "ramet.db", tmp_path / name / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} == {"data", name}
    assert [path.name for path in (tmp_path / name).iterdir()] == ["copy.db"]


def test_a_backup_made_while_others_write_opens_as_a_store_with_no_hole(tmp_path: Path) -> None:
    store, stopping = Store.open(f"sqlite:///{tmp_path}/ramet.db"), threading.Event()

    def write() -> None:
        number = 0
        while not stopping.is_set():
            Projects(store).create_project(f"{number:06}", utc_now())
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not names(store):
            pass
        copy_sqlite(tmp_path / "ramet.db", tmp_path / "copy.db")
    finally:
        stopping.set()
        writer.join()
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    kept = sorted(names(Store.open(f"sqlite:///{tmp_path}/copy.db")))
    assert kept == [f"{number:06}" for number in range(len(kept))]
    assert kept


def test_a_backup_knows_no_operation_that_was_under_way(tmp_path: Path) -> None:
    """A fork that is made when the store is backed up is written to when the backup is put in place."""
    for world in open_world(tmp_path):
        shop, old = world.ready(), world.ready(name="old")
        fork = world.fork(shop)
        world.delete(world.path(old["service_id"]))
        copy_sqlite(tmp_path / "ramet.db", tmp_path / "copy.db")
        with Store.open(f"sqlite:///{tmp_path}/copy.db").read() as tx:
            assert consistency.contradictions(tx) == []
            assert consistency.owners(tx).busy == frozenset()
            assert consistency.owners(tx).living == {shop["service_id"], old["service_id"]}
            made = services.get_service(tx, fork["service_id"])
        assert made is not None
        assert made.failure == "It was under way when the store was backed up"
        world.work()
        assert world.look(fork)["status"] == "READY"


def test_in_a_backup_no_service_expires_and_no_fork_waits_to_be_given_away(tmp_path: Path) -> None:
    """Both may have become somebody's for good when the backup is put in place."""
    for world in open_world(tmp_path):
        shop, warm = world.ready(), world.ready(name="warm")
        mark(world.store, shop["service_id"], warm["service_id"])
        copy_sqlite(tmp_path / "ramet.db", tmp_path / "copy.db")
        copy = Store.open(f"sqlite:///{tmp_path}/copy.db")
        check_forgotten(copy, warm["service_id"])
        with copy.read() as tx:
            assert consistency.contradictions(tx) == []
            assert consistency.owners(tx).living == {shop["service_id"]}
        copy.close()


def mark(store: Store, expiring: str, warm: str) -> None:
    """Let one service expire now, and let the other one be a fork that waits to be given to somebody."""
    span = services.life_span_column(LifeSpan(utc_now() - timedelta(hours=1), 60, announced_at=utc_now()))
    with store.write() as tx:
        services.update_service(tx, expiring, life_span=span)
        services.update_service(tx, warm, unclaimed=True)


def check_forgotten(store: Store, warm: str) -> None:
    with store.read() as tx:
        assert services.with_life_span(tx) == []
        assert unclaimed_forks(tx) == []
        found = services.get_service(tx, warm)
    assert found is not None
    assert found.failure == "It waited to be given to somebody when the store was backed up"


@pytest.mark.servers
def test_the_statements_of_the_page_end_what_was_under_way_in_a_dump(postgresql_url: str, tmp_path: Path) -> None:
    statements = (DOCS / "backup.md").read_text().partition("```sql\n")[2].partition("```")[0]
    for world in open_world(tmp_path, postgresql_url):
        shop, old, warm = world.ready(), world.ready(name="old"), world.ready(name="warm")
        fork = world.fork(shop)
        mark(world.store, shop["service_id"], warm["service_id"])
        world.delete(world.path(old["service_id"]))
        with psycopg.connect(postgresql_url.replace("+psycopg", ""), autocommit=True) as administrator:
            administrator.execute(statements)
        world.work()
        with world.store.read() as tx:
            assert consistency.contradictions(tx) == []
            assert consistency.owners(tx).busy == frozenset()
            assert consistency.owners(tx).living == {shop["service_id"], old["service_id"]}
            made = services.get_service(tx, fork["service_id"])
        assert made is not None
        assert made.failure == "It was under way when the store was backed up"
        check_forgotten(world.store, warm["service_id"])


def test_a_backup_never_overwrites(tmp_path: Path) -> None:
    Store.open(f"sqlite:///{tmp_path}/ramet.db").close()
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(FileExistsError):
        copy_sqlite(tmp_path / "ramet.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), Failed),
        (sa.exc.OperationalError("", {}, full(sqlite3.SQLITE_FULL)), Failed),
        (full(sqlite3.SQLITE_IOERR_SHMSIZE), Failed),
    ],
    ids=["interrupted", "no space for the file", "no space for a statement", "no space for the file beside a store"],
)
def test_an_incomplete_copy_is_not_taken_for_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, raised: type[BaseException]
) -> None:
    Store.open(f"sqlite:///{tmp_path}/ramet.db").close()
    (tmp_path / "backup").mkdir()

    def fail(copy: Path) -> None:
        assert [path.name for path in (tmp_path / "backup").iterdir()] == [copy.name] == ["ramet.db.partial"]
        raise fault

    monkeypatch.setattr(backup, "_forget_what_passes", fail)
    with pytest.raises(raised, match="its disk, or that of the store, is full" if raised is Failed else None):
        copy_sqlite(tmp_path / "ramet.db", tmp_path / "backup" / "ramet.db")
    assert list((tmp_path / "backup").iterdir()) == []


def test_a_store_on_a_server_is_left_to_its_server(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path / "data", database_url="postgresql+psycopg://ramet@db/ramet")
    assert not back_up_store(settings, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_the_store_of_a_data_directory_is_backed_up(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path / "data")
    make_data_dir(settings.data_dir)
    store = open_store(settings)
    Projects(store).create_project("shop", utc_now())
    assert back_up_store(settings, tmp_path / "copy.db")
    assert names(Store.open(f"sqlite:///{tmp_path}/copy.db")) == ["shop"]
