"""Private files: whole, owned like their directory, and locked against other processes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ramet.backends.local.host import files
from ramet.backends.local.host.system_user import server_account
from ramet.backends.local.process.log_files import tail
from ramet.errors import Failed
from tests.backends.local.segments import DISK_FAULTS, make_unreadable


@pytest.mark.parametrize("durable", [False, True])
def test_a_private_file_is_replaced_whole(tmp_path: Path, durable: bool) -> None:
    for text in ("first", b"second"):
        files.write(tmp_path / "file", text, durable=durable)
        assert (tmp_path / "file").read_bytes() == (text if isinstance(text, bytes) else text.encode())
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_at_the_partial_name_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "file.partial").symlink_to("victim")
    files.write(tmp_path / "file", "new")
    assert ((tmp_path / "victim").read_text(), (tmp_path / "file").read_text()) == ("kept", "new")


@pytest.mark.parametrize("keep", [False, True])
def test_a_link_in_place_of_an_output_file_is_replaced(tmp_path: Path, keep: bool) -> None:
    victim, log = tmp_path / "victim", tmp_path / "top" / "log"
    log.mkdir(parents=True)
    for link in (Path.symlink_to, Path.hardlink_to):
        victim.write_text("kept")
        link(log / "start.log", victim)
        with files.output(tmp_path / "top", log / "start.log", keep=keep) as descriptor:
            os.write(descriptor, b"new")
        assert (victim.read_text(), (log / "start.log").read_text()) == ("kept", "new")
        assert (log / "start.log").stat().st_mode & 0o777 == 0o600
        (log / "start.log").unlink()


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_what_the_disk_cannot_show_is_not_taken_for_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "file").touch()
    assert [files.is_there(tmp_path / name) for name in ("file", "none", "file/below")] == [True, False, False]
    make_unreadable(monkeypatch, tmp_path / "file", number)
    with pytest.raises(OSError, match=os.strerror(number)):
        files.is_there(tmp_path / "file")


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_no_file_is_changed_through_a_link(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    (tmp_path / "victim").write_text("kept")
    link(tmp_path / "file", tmp_path / "victim")
    with pytest.raises(OSError, match=r"Not a file|symbolic links"), files.changed(tmp_path / "file"):
        pass
    (tmp_path / "file").unlink()
    with files.changed(tmp_path / "victim") as file:
        file.truncate(2)
    assert (tmp_path / "victim").read_text() == "ke"


def test_output_replaces_what_is_there_or_is_added_to_it(tmp_path: Path) -> None:
    for text, keep in ((b"first", True), (b"second", False), (b" third", True)):
        with files.output(tmp_path, tmp_path / "start.log", keep=keep) as descriptor:
            os.write(descriptor, text)
    assert (tmp_path / "start.log").read_text() == "second third"


def test_no_output_is_written_below_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "log").mkdir(parents=True)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "log").symlink_to("../elsewhere/log")
    (tmp_path / "link").symlink_to("elsewhere")
    for top in (tmp_path / "top", tmp_path / "link"):
        with pytest.raises(Failed, match="must not be a symbolic link"), files.output(top, top / "log" / "start.log"):
            pass
    assert list((tmp_path / "elsewhere" / "log").iterdir()) == []


@pytest.mark.root
def test_a_file_that_is_replaced_by_a_link_does_not_get_the_owner_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user whom a directory belongs to may do so at any moment."""
    account, victim = server_account(), tmp_path / "victim"
    account.make_directory(tmp_path / "owned")
    victim.touch()

    def replace(path: Path) -> None:
        path.unlink()
        path.symlink_to(victim)

    partial = tmp_path / "owned" / "file.partial"
    monkeypatch.setattr(os, "fsync", lambda _: replace(partial) if partial.exists() else None)
    files.write(tmp_path / "owned" / "file", durable=True)
    assert (tmp_path / "owned" / "file").is_symlink()
    assert victim.stat().st_uid == 0


@pytest.mark.root
def test_what_root_writes_belongs_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    account = server_account()
    account.make_directory(tmp_path / "owned")
    files.write(tmp_path / "owned" / "file")
    made = files.make_directory(tmp_path / "owned", "inner")
    with files.output(tmp_path, tmp_path / "owned" / "log"):
        pass
    assert {path.stat().st_uid for path in (made, *(tmp_path / "owned").iterdir())} == {account.uid}


def test_a_lock_that_is_held_elsewhere_is_waited_for_only_as_long_as_asked(tmp_path: Path) -> None:
    with (
        files.locked(tmp_path / "lock"),
        pytest.raises(TimeoutError),
        files.locked(tmp_path / "lock", timeout_seconds=0),
    ):
        pass
    with files.locked(tmp_path / "lock", timeout_seconds=0):
        pass


def test_no_file_is_made_through_a_link_in_place_of_a_lock(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"), files.locked(tmp_path / "lock"):
        pass
    assert not target.exists()


def test_nothing_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret\n")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("log", "pipe", "nothing"):
        assert (files.read(tmp_path / name), tail(tmp_path / name)) == ("", b"")
    assert (files.read(tmp_path / "secret"), tail(tmp_path / "secret")) == ("a secret\n", b"a secret\n")


def test_a_directory_that_is_gone_is_not_created_by_locking_it(tmp_path: Path) -> None:
    with files.locked(tmp_path, flags=os.O_DIRECTORY):
        pass
    with pytest.raises(FileNotFoundError), files.locked(tmp_path / "gone", flags=os.O_DIRECTORY):
        pass
    assert not (tmp_path / "gone").exists()


def test_a_lock_is_on_the_file_that_others_see_where_who_held_it_has_removed_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock = tmp_path / "lock", fcntl.flock

    def locked_late(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        path.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", locked_late)
    with files.locked(path), pytest.raises(TimeoutError), files.locked(path, timeout_seconds=0):
        raise AssertionError("two hold the lock")
