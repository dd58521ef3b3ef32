"""The user that servers run as, and the places that it must reach."""

import os
import pwd
from pathlib import Path

import pytest

from ramet.backends.local.host.paths import layout_of, make_private_parents
from ramet.backends.local.host.system_user import Account, server_account
from ramet.errors import Failed
from tests.backends.local.hosts import data_root


@pytest.mark.root
def test_root_lends_its_servers_a_system_user_without_a_shell() -> None:
    account = server_account()
    entry = pwd.getpwnam(account.name)
    assert account.lent
    assert entry.pw_uid not in (0, None)
    assert entry.pw_shell.endswith("nologin")
    assert server_account() == account


@pytest.mark.root
def test_a_data_root_that_the_account_cannot_enter_is_named() -> None:
    account = server_account()
    with data_root() as root:
        closed = root / "closed"
        closed.mkdir(mode=0o700)
        (closed / "inner").mkdir(mode=0o755)
        with pytest.raises(Failed, match=f"no permission to enter {closed}"):
            account.check_reach(closed / "inner")
        closed.chmod(0o711)
        account.check_reach(closed / "inner")


def test_a_link_in_place_of_a_directory_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "log").symlink_to("elsewhere")
    with pytest.raises(Failed, match="log must be a directory, and must not be a symbolic link"):
        server_account().make_directory(tmp_path / "log")
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


def test_a_socket_path_fits_into_an_address(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 200)
    paths = layout_of(deep, deep).service("abcdefghij")
    assert len(str(paths.sockets / ".s.PGSQL.65535.lock")) <= 100
    assert paths.data == deep / "services" / "abcdefghij" / "data"


def test_two_data_roots_have_sockets_apart(tmp_path: Path) -> None:
    assert layout_of(tmp_path / "a", tmp_path).sockets != layout_of(tmp_path / "b", tmp_path).sockets


def test_a_data_root_behind_a_link_is_known_by_its_real_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert layout_of(tmp_path / "link", tmp_path / "link") == layout_of(tmp_path / "real", tmp_path / "real")


def test_a_strict_umask_does_not_close_the_way_to_the_sockets(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_private_parents(tmp_path / "ramet" / "01234567" / "abcdefghij")
    finally:
        os.umask(before)
    assert (tmp_path / "ramet" / "01234567").stat().st_mode & 0o777 == 0o711


def test_a_directory_whose_maker_was_killed_before_it_opened_the_way_is_opened_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "ramet" / "01234567" / "abcdefghij"

    def kill(path: Path, mode: int) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "chmod", kill)
        with pytest.raises(InterruptedError):
            make_private_parents(directory)
    make_private_parents(directory)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "ramet", tmp_path / "ramet/01234567")} == {0o711}


def test_a_socket_directory_that_others_can_change_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "ramet" / "01234567" / "abcdefghij"
    make_private_parents(directory)
    (tmp_path / "ramet").chmod(0o777)
    with pytest.raises(Failed, match="no other user can write to"):
        make_private_parents(directory)
    (tmp_path / "ramet").rename(tmp_path / "real")
    (tmp_path / "real").chmod(0o711)
    (tmp_path / "ramet").symlink_to("real")
    with pytest.raises(Failed, match="no other user can write to"):
        make_private_parents(directory)


def _self(directory: Path) -> Account:
    found = directory.stat()
    return Account("self", found.st_uid, found.st_gid, lent=False)
