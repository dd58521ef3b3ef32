"""A pool is made once, found again in the same way, and never silently replaced."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.local.volumes import image as images
from ramet.backends.local.volumes import pool as pools
from ramet.backends.local.volumes import probe
from ramet.backends.local.volumes.disk_usage import free_bytes
from ramet.backends.local.volumes.mounts import mounted_at, users_of
from ramet.backends.local.volumes.pool import Pool, close_pool, open_pool
from ramet.backends.local.volumes.pool_record import Record, write_record
from ramet.backends.local.volumes.probe import best_driver
from ramet.errors import Error, Exhausted, Failed, Invalid, WrongState
from tests.backends.local.pools import make_pool

_SIZE = 512 * 1024**2


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    mount = mounted_at(tmp_path / "pool")
    if mount:
        subprocess.run(["umount", str(mount.path)], check=True)


@pytest.fixture
def image_pool(root: Path) -> Iterator[Pool]:
    with make_pool(root, "reflink", image_size_bytes=_SIZE) as pool:
        yield pool


def _mounts_of(root: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {root}/pool " in line]


@pytest.mark.root
@pytest.mark.parametrize(("driver", "file_system"), [("auto", "xfs"), ("reflink", "xfs"), ("btrfs", "btrfs")])
def test_where_blocks_cannot_be_shared_an_image_is_made_and_mounted(root: Path, driver: str, file_system: str) -> None:
    if best_driver(root) != "copy":
        pytest.skip("the temporary directory shares blocks itself")
    with make_pool(root, driver, image_size_bytes=_SIZE) as pool:
        mount = mounted_at(pool.path)
        assert mount is not None
        assert mount.file_system == file_system
        assert mount.image == pool.image == root / f"pool.{file_system}"
        assert Path("/sys/block", Path(mount.source).name, "loop/dio").read_text() == "1\n"
        assert pool.driver.name == ("btrfs" if driver == "btrfs" else "reflink")
        options = Path("/proc/self/mounts").read_text().split(f" {pool.path} ")[1].split(" ")[1].split(",")
        assert {"nodev", "nosuid", "noatime"} <= set(options)
    assert mounted_at(pool.path) is None
    assert str(root) not in subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True).stdout


@pytest.mark.root
def test_a_file_system_that_shares_blocks_needs_no_image(image_pool: Pool) -> None:
    inner = open_pool(image_pool.path / "data root")
    assert inner.image is None
    assert inner.driver.name == "reflink"
    assert inner.path == image_pool.path / "data root/pool"
    close_pool(inner)


@pytest.mark.root
def test_an_image_keeps_its_content_over_closing_and_opening(root: Path, image_pool: Pool) -> None:
    (image_pool.path / "file").write_text("kept")
    close_pool(image_pool)
    assert not (image_pool.path / "file").exists()
    assert open_pool(root) == image_pool
    assert (image_pool.path / "file").read_text() == "kept"


@pytest.mark.root
def test_opening_an_open_pool_mounts_nothing_more(root: Path, image_pool: Pool) -> None:
    assert open_pool(root) == image_pool
    assert len(_mounts_of(root)) == 1


@pytest.mark.root
def test_processes_that_open_one_pool_at_once_mount_it_once(root: Path) -> None:
    program = "import sys; from ramet.backends.local.volumes.pool import *; "
    program += f"open_pool(Path({str(root)!r}), driver='reflink', image_size_bytes={_SIZE})"
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait(BOUND_SECONDS) for process in processes] == [0, 0, 0, 0]
    assert len(_mounts_of(root)) == 1


@pytest.mark.root
def test_a_missing_image_is_refused_by_name(root: Path, image_pool: Pool) -> None:
    close_pool(image_pool)
    (root / "pool.xfs").rename(root / "elsewhere")
    with pytest.raises(Failed, match=rf"{root}/pool\.xfs.* is missing"):
        open_pool(root)
    assert not (root / "pool.xfs").exists()


@pytest.mark.root
def test_an_image_of_another_pool_is_refused(root: Path, image_pool: Pool) -> None:
    close_pool(image_pool)
    images.make_image(root / "pool.xfs", "xfs", _SIZE)
    with pytest.raises(Failed, match="is not the image that"):
        open_pool(root)


@pytest.mark.root
def test_a_truncated_image_is_refused(root: Path, image_pool: Pool) -> None:
    close_pool(image_pool)
    os.truncate(root / "pool.xfs", 10)
    with pytest.raises(Failed, match="too short to contain a file system"):
        open_pool(root)


@pytest.mark.root
def test_another_mount_at_the_path_of_the_pool_is_refused(root: Path, image_pool: Pool) -> None:
    close_pool(image_pool)
    subprocess.run(["mount", "-t", "tmpfs", "ramet-test", str(image_pool.path)], check=True)
    with pytest.raises(Failed, match="ramet-test is mounted at"):
        open_pool(root)


@pytest.mark.root
def test_an_image_without_its_record_is_never_created_again(root: Path, image_pool: Pool) -> None:
    close_pool(image_pool)
    (root / "pool.json").unlink()
    with pytest.raises(Failed, match=r"pool\.json is missing"):
        open_pool(root)


@pytest.mark.root
@pytest.mark.crash
@pytest.mark.parametrize("dies_in", ["mount_image", "unmount", "write_record", "_checked_image"])
def test_opening_a_pool_repairs_a_creation_that_was_killed(
    root: Path, dies_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pools, dies_in, die)
        with pytest.raises(KeyboardInterrupt):
            open_pool(root, driver="reflink", image_size_bytes=_SIZE)
    with make_pool(root, "reflink", image_size_bytes=_SIZE) as pool:
        assert sorted(path.name for path in root.iterdir()) == ["pool", "pool.json", "pool.lock", "pool.xfs"]
        assert len(_mounts_of(root)) == 1
        assert pool.image == root / "pool.xfs"


@pytest.mark.root
def test_a_pool_in_use_is_not_closed_and_its_users_are_named(image_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.backends.local.volumes.mounts._UNMOUNT_SECONDS", 0.1)
    with subprocess.Popen(["sleep", "60"], cwd=image_pool.path) as process:
        with pytest.raises(WrongState, match=rf"sleep \(process {process.pid}\)"):
            close_pool(image_pool)
        assert users_of(image_pool.path) == [f"sleep (process {process.pid})"]
        process.kill()
    close_pool(image_pool)
    assert mounted_at(image_pool.path) is None


@pytest.mark.root
def test_free_space_is_what_the_file_system_around_the_image_can_give(
    image_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = free_bytes(image_pool.path)
    assert image_pool.free_bytes() == inside
    assert inside < image_pool.total_bytes() <= _SIZE
    monkeypatch.setattr(pools, "free_bytes", lambda path: inside if path == image_pool.path else 1000)
    assert image_pool.free_bytes() < inside / 2


def test_a_forced_plain_copy_needs_nothing(root: Path) -> None:
    pool = open_pool(root, driver="copy")
    assert pool.image is None
    assert pool.driver.name == "copy"
    assert pool.free_bytes() > 0
    assert open_pool(root) == pool


def test_an_ordinary_user_gets_plain_copies_and_the_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if best_driver(root) != "copy":
        pytest.skip("the temporary directory shares blocks itself")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    pool = open_pool(root)
    assert pool.driver.name == "copy"
    assert "only root can mount an image" in pool.describe()


@pytest.mark.root
def test_a_host_that_cannot_mount_gets_plain_copies_and_the_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise Failed("PROGRAM_FAILED", "mount ended with status 32", "permission denied")

    monkeypatch.setattr(pools, "mount_image", refuse)
    pool = open_pool(root, image_size_bytes=_SIZE)
    assert pool.driver.name == "copy"
    assert "permission denied" in pool.describe()
    assert sorted(path.name for path in root.iterdir()) == ["pool", "pool.json", "pool.lock"]


@pytest.mark.parametrize("driver", ["reflink", "btrfs"])
def test_a_driver_that_the_host_cannot_serve_is_refused_with_the_reason(
    root: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if best_driver(root) != "copy":
        pytest.skip("the temporary directory shares blocks itself")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Invalid, match="only root can mount an image"):
        open_pool(root, driver=driver)
    assert not (root / "pool.json").exists()


def test_another_driver_than_the_recorded_one_is_refused(root: Path) -> None:
    open_pool(root, driver="copy")
    with pytest.raises(Invalid, match="was created with the driver copy"):
        open_pool(root, driver="reflink")


def test_a_pool_on_another_file_system_than_recorded_is_refused(root: Path) -> None:
    if best_driver(root) != "copy":
        pytest.skip("the temporary directory shares blocks itself")
    open_pool(root, driver="copy")
    record = json.loads((root / "pool.json").read_text())
    (root / "pool.json").write_text(json.dumps(record | {"driver": "reflink"}))
    with pytest.raises(Failed, match=r"names the driver reflink, which .* lacks"):
        open_pool(root)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "colour": "blue"}'])
def test_a_record_that_cannot_be_read_is_refused(root: Path, content: str) -> None:
    (root / "pool.json").write_text(content)
    with pytest.raises(Failed, match=r"pool\.json cannot be read"):
        open_pool(root)


@pytest.mark.root
@pytest.mark.parametrize(("size_bytes", "error"), [(1000, Invalid), (2**60, Exhausted)])
def test_an_image_of_an_impossible_size_is_refused(root: Path, size_bytes: int, error: type[Error]) -> None:
    if best_driver(root) != "copy":
        pytest.skip("the temporary directory shares blocks itself")
    with pytest.raises(error):
        open_pool(root, image_size_bytes=size_bytes)
    assert not (root / "pool.json").exists()


def test_an_unknown_driver_is_refused(root: Path) -> None:
    with pytest.raises(Invalid, match=r"must be auto, reflink, btrfs or copy \(got 'zfs'\)"):
        open_pool(root, driver="zfs")


@pytest.mark.root
def test_a_plain_copy_that_does_not_fit_is_refused_before_it_starts(root: Path) -> None:
    with make_pool(root / "outer", "reflink", image_size_bytes=_SIZE) as outer:
        pool = open_pool(outer.path, driver="copy")
        pool.driver.create_tree(pool.path / "source")
        with (pool.path / "source/file").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 300 * 1024**2)
        with pytest.raises(Exhausted, match=r"A copy at .* needs 314,572,800 bytes"):
            pool.driver.clone_tree(pool.path / "source", pool.path / "clone")
        assert [path.name for path in pool.path.iterdir()] == ["source"]
        shutil.rmtree(pool.path / "source")


@pytest.mark.root
def test_a_pool_on_a_full_file_system_is_opened_again(root: Path) -> None:
    """The reserve that is removed then is in the pool."""
    with make_pool(root / "outer", "reflink", image_size_bytes=_SIZE) as outer:
        pool = open_pool(outer.path)
        with (outer.path / "large").open("wb") as file:
            for size_bytes in (1024**2, 4096):
                with suppress(OSError):
                    for _ in range(_SIZE // size_bytes):
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size_bytes)
        with pytest.raises((OSError, Exhausted)):
            probe.clones_files(outer.path)
        assert open_pool(outer.path) == pool


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "full"), Exhausted("NOT_ENOUGH_DISK", "full")]
)
def test_a_pool_where_nothing_can_be_tried_is_opened_as_it_was_made(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_directory: Path) -> bool:
        raise error

    write_record(root / "pool.json", Record("reflink", "its file system supports it"))
    monkeypatch.setattr(probe, "clones_files", fail)
    assert open_pool(root).driver.name == "reflink"


@pytest.mark.root
def test_discarded_blocks_of_an_image_are_free_on_the_disk(image_pool: Pool) -> None:
    assert image_pool.image is not None
    large = image_pool.path / "large"
    large.write_bytes(os.urandom(100 * 1024**2))
    os.sync()
    with_it = image_pool.image.stat().st_blocks
    large.unlink()
    os.sync()

    def has_shrunk() -> bool:
        image_pool.discard_free_blocks()
        assert image_pool.image is not None
        return (with_it - image_pool.image.stat().st_blocks) * 512 >= 90 * 1024**2

    eventually(has_shrunk)


@pytest.mark.root
def test_an_image_that_promises_more_than_the_disk_has_says_so(
    image_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "may grow" not in image_pool.describe()
    monkeypatch.setattr(pools, "free_bytes", lambda _: 7 * 1024**2)
    assert "the disk below it has only 7 MiB left" in image_pool.describe()
