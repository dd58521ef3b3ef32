"""Packed trees: what is unpacked equals the source, and equal files of two of them are one file."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes import packed
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.volumes.copy_tree import copy_tree, same_names
from ramet.backends.local.volumes.driver import NOTHING, Exclusions
from ramet.backends.local.volumes.packed import PackingDriver, unpack_tree
from ramet.errors import Exhausted, Failed

_MEBIBYTE = 1024**2
_RELATION = "base/1/16384"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small tree with every kind of file: large, small, empty, with holes, and with the suffix of packed files."""
    source = tmp_path / "source"
    for directory in ("base/1", "global", "pg_wal"):
        (source / directory).mkdir(parents=True)
    (source / "global/pg_control").write_bytes(b"c" * 8192)
    (source / _RELATION).write_bytes(bytes(range(256)) * 8192)
    (source / "base/1/empty").touch()
    (source / "base/1/small.zst").write_bytes(b"(\xb5/\xfd no frame")
    (source / "base/1/large.zst").write_bytes(os.urandom(_MEBIBYTE))
    (source / "base/1/empty.zst").touch()
    with (source / "base/1/holes").open("wb") as file:
        file.truncate(_MEBIBYTE)
        file.seek(500_000)
        file.write(b"x")
    (source / _RELATION).chmod(0o640)
    return source


def _contents(tree: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in tree.rglob("*") if path.is_file())
    return {str(path.relative_to(tree)): (path.stat().st_mode, path.read_bytes()) for path in files}


def _pack(source: Path, target: Path, earlier: Path | None = None) -> Path:
    PackingDriver(earlier).clone_tree(source, target)
    return target


def test_what_is_unpacked_equals_the_source(source: Path, tmp_path: Path) -> None:
    kept = _pack(source, tmp_path / "kept")
    assert (kept / f"{_RELATION}.zst").stat().st_size < 100_000
    assert (kept / "global/pg_control").read_bytes() == b"c" * 8192
    unpack_tree(kept, tmp_path / "copy", NOTHING, 0)
    assert _contents(tmp_path / "copy") == _contents(source)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "kept", "source"]


def test_statistics_and_exclusions_are_those_of_the_source(source: Path, tmp_path: Path) -> None:
    exclusions = Exclusions(emptied=frozenset(("base/1",)))
    statistics = PackingDriver(None).clone_tree(source, tmp_path / "kept", exclusions)
    assert (statistics.files, statistics.size_bytes) == (1, 8192)
    (tmp_path / "kept/pg_wal/segment").write_bytes(b"w")
    unpack_tree(tmp_path / "kept", tmp_path / "copy", Exclusions(emptied=frozenset(("pg_wal",))), 0)
    assert sorted(_contents(tmp_path / "copy")) == ["global/pg_control"]
    assert (tmp_path / "copy/pg_wal").is_dir()


def test_only_files_that_did_not_change_are_shared_between_packed_trees(source: Path, tmp_path: Path) -> None:
    first = _pack(source, tmp_path / "first")
    before = _contents(source)
    with (source / "base/1/large.zst").open("r+b") as file:
        file.write(b"changed")
    second = _pack(source, tmp_path / "second", first)
    assert (first / f"{_RELATION}.zst").samefile(second / f"{_RELATION}.zst")
    assert not (first / "base/1/large.zst.zst").samefile(second / "base/1/large.zst.zst")
    for tree, wanted in ((first, before), (second, _contents(source))):
        copy = tree.with_name(f"copy of {tree.name}")
        unpack_tree(tree, copy, NOTHING, 0)
        assert _contents(copy) == wanted
        (copy / _RELATION).write_bytes(b"a server writes")
    assert (source / _RELATION).stat().st_nlink == 1
    PackingDriver(None).remove_tree(first)
    unpack_tree(second, tmp_path / "later", NOTHING, 0)
    assert _contents(tmp_path / "later") == _contents(source)


def test_a_file_of_another_mode_is_not_shared(source: Path, tmp_path: Path) -> None:
    first = _pack(source, tmp_path / "first")
    (source / _RELATION).chmod(0o600)
    second = _pack(source, tmp_path / "second", first)
    assert (second / f"{_RELATION}.zst").stat().st_mode & 0o777 == 0o600
    assert (first / f"{_RELATION}.zst").stat().st_mode & 0o777 == 0o640


def test_an_earlier_tree_that_is_gone_is_no_obstacle(source: Path, tmp_path: Path) -> None:
    unpack_tree(_pack(source, tmp_path / "kept", tmp_path / "gone"), tmp_path / "copy", NOTHING, 0)
    assert _contents(tmp_path / "copy") == _contents(source)


@pytest.mark.parametrize("damage", ["flipped", "truncated"])
def test_a_damaged_file_is_named_and_nothing_is_left(source: Path, tmp_path: Path, damage: str) -> None:
    path = _pack(source, tmp_path / "kept") / "base/1/large.zst.zst"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content if damage == "flipped" else content[:-1])
    with pytest.raises(Failed, match=r"large\.zst\.zst of a snapshot is damaged") as caught:
        unpack_tree(tmp_path / "kept", tmp_path / "copy", NOTHING, 0)
    assert caught.value.code == "SNAPSHOT_DAMAGED"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "source"]


def test_what_is_appended_or_cut_off_during_the_copy_does_no_harm(source: Path, tmp_path: Path) -> None:
    def form(name: str, status: os.stat_result) -> tuple[str, object]:
        os.truncate(source / _RELATION, 100_000)
        with (source / "base/1/large.zst").open("ab") as file:
            file.write(b"later")
        return packed._packed(name, status)

    before = (source / "base/1/large.zst").read_bytes()
    copy_tree(source, tmp_path / "kept", NOTHING, form)  # type: ignore[arg-type]
    unpack_tree(tmp_path / "kept", tmp_path / "copy", NOTHING, 0)
    assert len((tmp_path / "copy" / _RELATION).read_bytes()) in (100_000, 256 * 8192)
    assert (tmp_path / "copy/base/1/large.zst").read_bytes().startswith(before)


def test_zeros_become_holes_and_are_read_as_zeros(tmp_path: Path) -> None:
    content = os.urandom(100_000) + bytes(_MEBIBYTE) + b"x" + bytes(_MEBIBYTE)
    (tmp_path / "segment").write_bytes(content)
    PackingDriver(None).clone_file(tmp_path / "segment", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    assert (tmp_path / "copy").stat().st_blocks * 512 < 400_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "ramet-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_snapshot_leaves_room_for_the_wal_of_servers(source: Path, small_disk: Path) -> None:
    (source / "base/1/large.zst").unlink()
    with pytest.raises(Exhausted) as caught:  # all of it would fit
        _pack(source, small_disk / "kept")
    assert caught.value.code == "NOT_ENOUGH_DISK"
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("size_bytes", [8192, 16384])  # kept as it is, and compressed
def test_a_copy_leaves_room_for_the_wal_of_servers(tmp_path: Path, small_disk: Path, size_bytes: int) -> None:
    """All of it would fit; how much others write at the same time is not known before."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(bytes(range(256)) * (size_bytes // 256))
    with pytest.raises(Exhausted):
        unpack_tree(_pack(tree, tmp_path / "kept"), small_disk / "copy", NOTHING, 0)
    with pytest.raises(Exhausted, match="134,217,728 must stay free"):
        CopyDriver().clone_tree(tree, small_disk / "copy")
    assert list(small_disk.iterdir()) == []
    with pytest.raises(OSError, match="No space left"):
        copy_tree(tree, small_disk / "copy", NOTHING, same_names(CopyDriver().tree_transfer()))


def test_one_file_is_copied_while_little_is_free(source: Path, small_disk: Path) -> None:
    """WAL has to be archived then."""
    CopyDriver().clone_file(source / "global/pg_control", small_disk / "file")
    assert (small_disk / "file").read_bytes() == b"c" * 8192


def test_a_full_disk_is_named_and_leaves_nothing(source: Path, tmp_path: Path, small_disk: Path) -> None:
    kept = _pack(source, tmp_path / "kept")
    for size_bytes in (0, 10 * _MEBIBYTE):
        with pytest.raises(Exhausted):
            unpack_tree(kept, small_disk / "copy", NOTHING, size_bytes)
    assert list(small_disk.iterdir()) == []


def test_a_write_that_the_disk_takes_only_in_part_is_completed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, target, write = source / _RELATION, tmp_path / "copy", os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda to, block, at: write(to, block[:1000], at))
    with original.open("rb") as reading, target.open("wb") as writing:
        PackingDriver(None).transfer()(reading.fileno(), writing.fileno(), original.stat())
    assert target.read_bytes() == original.read_bytes()
