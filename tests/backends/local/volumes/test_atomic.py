"""A tree with its final name is complete, and any tree can be removed."""

import ctypes
import errno
import os
import shutil
from pathlib import Path

import pytest

from ramet.backends.local.volumes import atomic, syscalls
from ramet.backends.local.volumes.atomic import built_at, remove_all, remove_files, removed_from
from tests.backends.local.segments import DISK_FAULTS, refuse_removal


def test_an_incomplete_tree_is_removed_when_its_creation_fails(tmp_path: Path) -> None:
    def build() -> None:
        with built_at(tmp_path / "target", remove_files) as partial:
            partial.mkdir()
            (partial / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        remove_files(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTEMPTY])
def test_removing_continues_when_another_removes_the_same(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").touch()
    rmtree = shutil.rmtree

    def disturbed(path: Path, **_options: object) -> None:
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(shutil, "rmtree", disturbed)
    remove_files(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [*DISK_FAULTS, errno.ENOSPC, errno.EDQUOT])
def test_what_the_storage_refuses_to_remove_keeps_nothing_else_and_is_reported(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b/a", "b/broken", "b/c", "c/a"):
        (tmp_path / "tree.partial-1" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree.partial-1" / name).touch()
    shutil.copytree(tmp_path / "tree.partial-1/b", tmp_path / "tree")
    with monkeypatch.context() as patched:
        refuse_removal(patched, "broken", number)
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(number)):
                removed_from(tmp_path / "tree", remove_files)
            left = [path.relative_to(tmp_path).parts[1:] for path in tmp_path.rglob("*") if path.is_file()]
            assert sorted(left) == [("b", "broken"), ("broken",)]
    removed_from(tmp_path / "tree", remove_files)
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_dies_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()

    def die(_path: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        removed_from(tmp_path / "tree", die)
    assert not (tmp_path / "tree").exists()
    removed_from(tmp_path / "tree", remove_files)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kernel_checks", [True, False])
def test_a_rename_never_replaces(tmp_path: Path, kernel_checks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel_checks:
        monkeypatch.setattr(syscalls, "_rename_noreplace", _unknown_to_the_file_system)
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    with pytest.raises(FileExistsError):
        syscalls.move_new(tmp_path / "source", tmp_path / "target")
    atomic.remove_files(tmp_path / "target")
    syscalls.move_new(tmp_path / "source", tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def _unknown_to_the_file_system(_source: Path, _target: Path) -> int:
    ctypes.set_errno(errno.EINVAL)
    return -1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_what_comes_after_a_removal_that_the_storage_refuses_is_removed_all_the_same(number: int) -> None:
    removed = list[str]()

    def refuse() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)):
        remove_all(refuse, lambda: removed.append("data"), lambda: removed.append("snapshots"))
    assert removed == ["data", "snapshots"]
