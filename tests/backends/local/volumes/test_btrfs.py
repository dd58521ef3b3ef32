"""What only subvolumes have: one instant, and subvolumes inside subvolumes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes.btrfs import BtrfsDriver, is_btrfs
from ramet.backends.local.volumes.driver import Exclusions
from ramet.errors import Failed
from tests.backends.local.pools import make_pool


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with make_pool(tmp_path_factory.mktemp("btrfs"), "btrfs") as pool:
        yield pool.path


@pytest.fixture
def source(place: Path) -> Iterator[Path]:
    BtrfsDriver().create_tree(place / "source")
    yield place / "source"
    for name in ("source", "clone"):
        BtrfsDriver().remove_tree(place / name)


def test_btrfs_is_recognised(place: Path, tmp_path: Path) -> None:
    assert is_btrfs(place)
    assert not is_btrfs(tmp_path)


def test_a_plain_directory_is_no_source(place: Path) -> None:
    (place / "plain").mkdir()
    with pytest.raises(Failed, match="plain is a plain directory"):
        BtrfsDriver().clone_tree(place / "plain", place / "clone")


def test_a_nested_subvolume_is_refused_by_name(place: Path, source: Path) -> None:
    (source / "base").mkdir()
    BtrfsDriver().create_tree(source / "base/nested")
    with pytest.raises(Failed, match="base/nested is a separate subvolume"):
        BtrfsDriver().clone_tree(source, place / "clone")
    assert not (place / "clone").exists()


def test_a_nested_subvolume_among_the_emptied_becomes_a_directory(place: Path, source: Path) -> None:
    BtrfsDriver().create_tree(source / "pg_wal")
    (source / "pg_wal/1").write_text("x")
    BtrfsDriver().clone_tree(source, place / "clone", Exclusions(emptied=frozenset({"pg_wal"})))
    (place / "clone/pg_wal/2").write_text("x")
    assert (source / "pg_wal/1").exists()


def test_a_tree_goes_with_the_subvolumes_inside_it(place: Path, source: Path) -> None:
    BtrfsDriver().create_tree(source / "one")
    BtrfsDriver().create_tree(source / "one/two")
    (source / "one/two/file").write_text("x")
    BtrfsDriver().remove_tree(source)
    assert not source.exists()


def test_without_the_right_to_destroy_subvolumes_a_tree_is_emptied_and_removed(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "base").mkdir()
    (source / "base/1").write_text("x")
    monkeypatch.setattr("ramet.backends.local.volumes.btrfs._destroyed", lambda path: False)
    BtrfsDriver().remove_tree(source)
    assert not source.exists()
