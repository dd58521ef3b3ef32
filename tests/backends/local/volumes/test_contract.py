"""What holds for every driver, shown on real XFS, btrfs and an ordinary file system."""

import errno
import os
import secrets
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ramet.backends.local.volumes import atomic
from ramet.backends.local.volumes.driver import Driver, Exclusions
from ramet.backends.local.volumes.syscalls import move_new, sync_tree
from ramet.errors import Exhausted, Failed

_LIVE = Exclusions(
    emptied=frozenset({"pg_wal", "pg_stat_tmp", "pg_notify"}),
    names=("postmaster.pid", "pgsql_tmp*", "pg_internal.init*"),
)
_MEBIBYTE = 1024**2


def _contents(tree: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(tree)): path.read_bytes() if path.is_file() else None for path in sorted(tree.rglob("*"))
    }


def test_a_new_tree_is_empty_and_private(driver: Driver, place: Path) -> None:
    driver.create_tree(place / "tree")
    assert list((place / "tree").iterdir()) == []
    assert stat.S_IMODE((place / "tree").stat().st_mode) == 0o700


def test_a_tree_is_not_made_twice(driver: Driver, place: Path) -> None:
    driver.create_tree(place / "tree")
    with pytest.raises(FileExistsError):
        driver.create_tree(place / "tree")


def test_a_clone_equals_its_source(driver: Driver, place: Path, source: Path) -> None:
    statistics = driver.clone_tree(source, place / "clone")
    assert _contents(place / "clone") == _contents(source)
    sizes = [path.stat().st_size for path in source.rglob("*") if path.is_file()]
    assert (statistics.files, statistics.size_bytes) == (len(sizes), sum(sizes))


def test_a_clone_of_a_large_file_equals_it(driver: Driver, place: Path, source: Path) -> None:
    with (source / "base/1/large").open("wb") as file:
        for number in range(41):
            file.write(number.to_bytes(4, "big") * (_MEBIBYTE // 4))
        file.write(b"the end")
    driver.clone_tree(source, place / "clone")
    assert (place / "clone/base/1/large").read_bytes() == (source / "base/1/large").read_bytes()


def test_a_clone_of_a_clone_equals_the_first(driver: Driver, place: Path, source: Path) -> None:
    driver.clone_tree(source, place / "clone")
    driver.clone_tree(place / "clone", place / "second")
    assert _contents(place / "second") == _contents(source)


@pytest.mark.parametrize("written", ["source", "clone"])
def test_writing_one_side_leaves_the_other_alone(driver: Driver, place: Path, source: Path, written: str) -> None:
    driver.clone_tree(source, place / "clone")
    other = place / ("clone" if written == "source" else "source")
    before = _contents(other)
    with (place / written / "base/1/1259").open("r+b") as file:
        file.write(b"changed")
    (place / written / "base/1/new").write_text("new")
    (place / written / "PG_VERSION").unlink()
    sync_tree(place)
    assert _contents(other) == before


def test_deleting_the_source_leaves_the_clone_whole(driver: Driver, place: Path, source: Path) -> None:
    before = _contents(source)
    driver.clone_tree(source, place / "clone")
    driver.remove_tree(source)
    assert _contents(place / "clone") == before


def test_a_clone_keeps_modes_whatever_the_umask(driver: Driver, place: Path, source: Path) -> None:
    (source / "base").chmod(0o750)
    (source / "base/1/1259").chmod(0o640)
    (source / "PG_VERSION").chmod(0o400)
    driver.clone_tree(source, place / "clone")
    for name, mode in ((".", 0o700), ("base", 0o750), ("base/1/1259", 0o640), ("PG_VERSION", 0o400)):
        assert stat.S_IMODE((place / "clone" / name).stat().st_mode) == mode, name


@pytest.mark.root
def test_a_clone_made_by_root_belongs_to_the_owner_of_the_source(driver: Driver, place: Path, source: Path) -> None:
    for path in (source, *source.rglob("*")):
        os.chown(path, 4711, 4712)
    exclusions = Exclusions(emptied=frozenset({"pg_wal"}))
    driver.clone_tree(source, place / "clone", exclusions)
    clone = place / "clone"
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in (clone, *clone.rglob("*"))}
    assert owners == {(4711, 4712)}


def test_holes_stay_holes(driver: Driver, place: Path, source: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.seek(8 * _MEBIBYTE)
        file.write(b"middle")
        file.truncate(64 * _MEBIBYTE)
    sync_tree(place)
    driver.clone_tree(source, place / "clone")
    clone = place / "clone/sparse"
    assert clone.read_bytes() == (source / "sparse").read_bytes()
    sync_tree(place)
    assert clone.stat().st_blocks * 512 < _MEBIBYTE


def test_exclusions_are_left_out_and_emptied_directories_are_made(driver: Driver, place: Path, source: Path) -> None:
    driver.clone_tree(source, place / "clone", _LIVE)
    assert sorted(_contents(place / "clone")) == [
        "PG_VERSION",
        "base",
        "base/1",
        "base/1/1259",
        "empty",
        "global",
        "global/pg_control",
        "pg_stat_tmp",
        "pg_wal",
    ]
    assert (source / "pg_wal/archive_status").is_dir()
    assert (source / "postmaster.pid").exists()


def test_an_existing_target_is_refused_and_unharmed(driver: Driver, place: Path, source: Path) -> None:
    (place / "clone").mkdir()
    with pytest.raises(FileExistsError):
        driver.clone_tree(source, place / "clone")
    assert list((place / "clone").iterdir()) == []
    assert sorted(path.name for path in place.iterdir()) == ["clone", "source"]


@pytest.mark.parametrize("link", ["pg_tblspc_17001", "base/1/link"])
def test_a_symbolic_link_is_refused_by_name_and_nothing_is_left(
    driver: Driver, place: Path, source: Path, link: str
) -> None:
    (source / link).symlink_to("/elsewhere")
    with pytest.raises(Failed, match=f"{source / link} is a symbolic link to /elsewhere"):
        driver.clone_tree(source, place / "clone")
    assert [path.name for path in place.iterdir()] == ["source"]


def test_a_link_in_place_of_an_emptied_directory_becomes_a_directory(
    driver: Driver, place: Path, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("x")
    (source / "pg_notify").symlink_to(tmp_path)
    driver.clone_tree(source, place / "clone", _LIVE)
    clone = place / "clone/pg_notify"
    assert clone.is_dir()
    assert not clone.is_symlink()
    assert list(clone.iterdir()) == []
    assert (tmp_path / "precious").exists()


def test_a_missing_source_leaves_nothing(driver: Driver, place: Path) -> None:
    with pytest.raises(FileNotFoundError):
        driver.clone_tree(place / "nowhere", place / "clone")
    assert list(place.iterdir()) == []


def test_a_full_disk_is_named_and_leaves_nothing(
    driver: Driver, place: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_source: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "move_new", full)
    with pytest.raises(Exhausted, match="not enough disk space") as caught:
        driver.clone_tree(source, place / "clone")
    assert caught.value.code == "NOT_ENOUGH_DISK"
    assert [path.name for path in place.iterdir()] == ["source"]


_KILLED_CLONE = """
import os, signal, sys
from pathlib import Path
from ramet.backends.local.volumes import atomic
from ramet.backends.local.volumes.probe import DRIVERS
atomic.move_new = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
driver, source, target = sys.argv[1:]
DRIVERS[driver].clone_tree(Path(source), Path(target))
"""


def _kill_while_cloning(driver: Driver, source: Path, target: Path) -> None:
    argv = [sys.executable, "-c", _KILLED_CLONE, driver.name, str(source), str(target)]
    assert subprocess.run(argv, timeout=250, check=False).returncode == -9


@pytest.mark.crash
@pytest.mark.parametrize("again", ["clone", "remove"])
def test_a_killed_clone_leaves_no_target_and_what_is_left_goes_next_time(
    driver: Driver, place: Path, source: Path, again: str
) -> None:
    _kill_while_cloning(driver, source, place / "clone")
    assert not (place / "clone").exists()
    assert len(list(place.iterdir())) == 2
    if again == "clone":
        driver.clone_tree(source, place / "clone")
        assert _contents(place / "clone") == _contents(source)
        assert sorted(path.name for path in place.iterdir()) == ["clone", "source"]
    else:
        driver.remove_tree(place / "clone")
        assert [path.name for path in place.iterdir()] == ["source"]


def test_partials_of_other_trees_are_left_alone(driver: Driver, place: Path, source: Path) -> None:
    (place / "clone2.partial-1").mkdir()
    driver.clone_tree(source, place / "clone")
    driver.remove_tree(place / "clone")
    assert (place / "clone2.partial-1").exists()


def test_removing_may_be_repeated(driver: Driver, place: Path, source: Path) -> None:
    driver.remove_tree(source)
    driver.remove_tree(source)
    driver.remove_tree(place / "never" / "made")
    assert list(place.iterdir()) == []


def test_removing_a_directory_takes_the_trees_inside_it(driver: Driver, place: Path, source: Path) -> None:
    service = place / "service"
    (service / "snapshots").mkdir(parents=True)
    driver.clone_tree(source, service / "data")
    driver.clone_tree(source, service / "snapshots/one")
    (service / "link").symlink_to(source)
    driver.remove_tree(service)
    assert [path.name for path in place.iterdir()] == ["source"]
    assert (source / "PG_VERSION").exists()


def _churn(directory: Path, stop: threading.Event) -> None:
    """Do what a live server does: make, extend, truncate and drop relations and databases."""
    while not stop.is_set():
        database = directory / secrets.token_hex(4)
        database.mkdir()
        for number in range(10):
            (database / str(number)).write_bytes(b"x" * 8192 * number)
        os.truncate(database / "9", 8192)
        for path in list(database.iterdir()):
            path.unlink()
        database.rmdir()


def test_files_that_are_created_and_removed_during_a_copy_do_no_harm(driver: Driver, place: Path, source: Path) -> None:
    stop = threading.Event()
    churn = threading.Thread(target=_churn, args=(source / "base", stop))
    churn.start()
    try:
        for number in range(20):
            driver.clone_tree(source, place / f"clone{number}")
            assert (place / f"clone{number}/base/1/1259").read_bytes() == (source / "base/1/1259").read_bytes()
    finally:
        stop.set()
        churn.join()


def test_a_shared_clone_takes_no_space_until_it_is_written(driver: Driver, place: Path, source: Path) -> None:
    (source / "base/1/2000").write_bytes(os.urandom(4 * _MEBIBYTE))
    sync_tree(place)
    driver.clone_tree(source, place / "clone")
    sync_tree(place)
    at_birth = driver.exclusive_bytes(place / "clone")
    assert at_birth < 65536 if driver.shares_blocks else at_birth >= 4 * _MEBIBYTE

    with (place / "clone/base/1/2000").open("r+b") as file:
        file.write(os.urandom(_MEBIBYTE))
    sync_tree(place)
    grown = driver.exclusive_bytes(place / "clone") - at_birth
    assert grown == pytest.approx(_MEBIBYTE if driver.shares_blocks else 0, abs=65536)


def test_the_estimate_is_the_space_that_a_clone_takes(driver: Driver, place: Path, source: Path) -> None:
    (source / "pg_wal/2").write_bytes(os.urandom(4 * _MEBIBYTE))
    (source / "base/1/2000").write_bytes(os.urandom(_MEBIBYTE))
    sync_tree(place)
    estimate = driver.estimate_bytes(source, _LIVE)
    driver.clone_tree(source, place / "clone", _LIVE)
    sync_tree(place)
    assert estimate == pytest.approx(driver.exclusive_bytes(place / "clone"), abs=65536)


def test_a_cloned_file_equals_its_source(driver: Driver, place: Path, source: Path) -> None:
    driver.clone_file(source / "base/1/1259", place / "file")
    assert (place / "file").read_bytes() == (source / "base/1/1259").read_bytes()
    assert sorted(path.name for path in place.iterdir()) == ["file", "source"]


def test_a_cloned_file_never_replaces_another(driver: Driver, place: Path, source: Path) -> None:
    (place / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        driver.clone_file(source / "base/1/1259", place / "file")
    assert (place / "file").read_text() == "mine"


@pytest.mark.parametrize("clone", ["clone_tree", "clone_file"])
def test_two_clones_to_one_name_end_with_one_winner(
    driver: Driver, place: Path, source: Path, clone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was stopped past its lease continues after the next one has finished."""
    wanted = source if clone == "clone_tree" else source / "PG_VERSION"

    def overtaken(partial: Path, target: Path) -> None:
        monkeypatch.setattr(atomic, "move_new", move_new)
        target.mkdir()
        move_new(partial, target)

    monkeypatch.setattr(atomic, "move_new", overtaken)
    with pytest.raises(FileExistsError):
        getattr(driver, clone)(wanted, place / "clone")
    assert sorted(path.name for path in place.iterdir()) == ["clone", "source"]
