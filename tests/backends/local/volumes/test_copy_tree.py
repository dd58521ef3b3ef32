"""Copying file by file from a source that changes during the copy."""

import os
from pathlib import Path

import pytest

from ramet.backends.local.volumes.copy import copy_bytes
from ramet.backends.local.volumes.copy_tree import copy_file, copy_tree, same_names
from ramet.backends.local.volumes.driver import NOTHING, Exclusions


def test_the_control_file_is_copied_last(tmp_path: Path) -> None:
    for name in ("base/1", "global", "pg_wal", "zz"):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "file").write_text("x")
    (tmp_path / "source/global/pg_control").write_text("c")
    order = []

    def note(source: int, target: int, status: os.stat_result) -> None:
        order.append(Path(f"/proc/self/fd/{source}").readlink().name)
        copy_bytes(source, target, status)

    statistics = copy_tree(tmp_path / "source", tmp_path / "target", NOTHING, same_names(note))
    assert order == ["file"] * 4 + ["pg_control"]
    assert statistics.files == 5
    assert (tmp_path / "target/global/pg_control").read_text() == "c"


def test_the_control_file_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "source/global").mkdir(parents=True)
    (tmp_path / "source/global/pg_control").write_text("c")
    exclusions = Exclusions(names=("pg_control",))
    copy_tree(tmp_path / "source", tmp_path / "target", exclusions, same_names(copy_bytes))
    assert list((tmp_path / "target/global").iterdir()) == []


def test_what_vanishes_between_listing_and_opening_is_passed_over(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("one", "two", "three"):
        (source / "relations").mkdir(parents=True, exist_ok=True)
        (source / "relations" / name).write_text("x")
        (source / name).mkdir()

    def drop_the_rest(descriptor: int, target: int, status: os.stat_result) -> None:
        for path in list((source / "relations").iterdir()):
            path.unlink()
        for name in ("one", "two", "three"):
            if (source / name).exists():
                (source / name).rmdir()
        os.write(target, b"y")

    statistics = copy_tree(source, tmp_path / "target", NOTHING, same_names(drop_the_rest))
    assert statistics.files == 1
    assert len(list((tmp_path / "target/relations").iterdir())) == 1


def test_sockets_and_pipes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    os.mkfifo(tmp_path / "source/pipe")
    statistics = copy_tree(tmp_path / "source", tmp_path / "target", NOTHING, same_names(copy_bytes))
    assert statistics.files == 0
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("kernel_copies", [True, False])
def test_a_file_truncated_during_the_copy_is_copied_to_its_end(
    tmp_path: Path, kernel_copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel_copies:
        monkeypatch.setattr(os, "copy_file_range", _no_kernel_copy)
    content = os.urandom(100_000)
    (tmp_path / "file").write_bytes(content)
    before = (tmp_path / "file").stat()
    os.truncate(tmp_path / "file", 30_000)
    copy_file(tmp_path / "file", tmp_path / "copy", lambda source, target, _: copy_bytes(source, target, before))
    assert (tmp_path / "copy").read_bytes() == content[:30_000]


def test_a_file_crosses_to_where_the_kernel_cannot_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", _no_kernel_copy)
    content = bytes(1_000_000) + os.urandom(500_000)
    (tmp_path / "file").write_bytes(content)
    copy_file(tmp_path / "file", tmp_path / "copy", copy_bytes)
    assert (tmp_path / "copy").read_bytes() == content


def _no_kernel_copy(*_arguments: object) -> int:
    raise OSError(18, "Invalid cross-device link")
