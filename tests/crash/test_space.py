"""When the disk is full, the fork fails with the reason and its parent keeps running; forks work again afterwards."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.instance import FREQUENT_SNAPSHOTS, Instance, connect, running_instance
from harness.waiting import eventually
from prove.journal import rows_of
from ramet.backends.local.volumes.disk_usage import free_bytes

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.root]
MIB = 1024**2
RESERVE_MIB = 260


@dataclass(frozen=True)
class Shop:
    """A READY service with rows, and a time after them."""

    instance: Instance
    id: str
    port: int
    password: str

    def fork(self, **body: str) -> Any:
        return self.instance.call("POST", f"/services/{self.id}/forkService", {"fork_strategy": "NOW", **body})

    def rows(self) -> list[int]:
        return rows_of(self.port, self.password)


def make_shop(instance: Instance) -> Shop:
    answer = instance.call("POST", "/services", {"name": "shop"}).json()
    shop = Shop(instance, answer["service_id"], answer["endpoint"]["port"], answer["initial_password"])
    eventually(lambda: status(instance, shop.id) == "READY", lambda: str(shown(instance, shop.id)))
    with connect(shop.port, shop.password) as connection:
        connection.execute("CREATE TABLE ledger AS SELECT generate_series(1, 1000)::bigint AS n")
    return shop


def shown(instance: Instance, service_id: str) -> dict[str, Any]:
    found: dict[str, Any] = instance.call("GET", f"/services/{service_id}").json()
    return found


def status(instance: Instance, service_id: str) -> str:
    return str(shown(instance, service_id).get("status"))


def end_of(instance: Instance, service_id: str) -> str:
    """Wait until a fork is READY or has failed; return its failure, or READY."""

    def ended() -> list[Any]:
        return instance.rows("SELECT failure, ready_at FROM service WHERE id = ? AND operation_id IS NULL", service_id)

    eventually(lambda: bool(ended()), "the fork's end")
    ((failure, ready_at),) = ended()
    return "READY" if ready_at else str(failure)


@contextmanager
def ballast(pool: Path, left_mib: int) -> Iterator[Callable[[], None]]:
    """Take all room but some MiB; the function that is given takes the rest too. All is given back at the end."""
    files, room = [pool / "ballast", pool / "more-ballast"], free_bytes(pool)
    fill_up(files[0], left_mib)
    try:
        yield lambda: fill_up(files[1], 0)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
        # XFS frees the blocks of removed files in the background; servers may have written in the meantime.
        eventually(lambda: free_bytes(pool) > room - 50 * MIB, "the room of the ballast")


def fill_up(path: Path, left_mib: int) -> None:
    size, step = 0, 1024 * MIB
    with path.open("wb") as file:
        while (piece := min(step, free_bytes(path.parent) - left_mib * MIB)) > 4096:
            try:
                os.posix_fallocate(file.fileno(), size, piece)
                size += piece
            except OSError:
                step = piece // 2


def check_all_is_well(shop: Shop, restore_time: datetime, before: list[int]) -> None:
    """The parent serves its rows and keeps its restore window, the next fork works, and nothing is left over."""
    eventually(lambda: status(shop.instance, shop.id) == "READY", lambda: str(shown(shop.instance, shop.id)))
    assert shop.rows() == before
    for body in ({}, {"fork_strategy": "PITR", "target_time": restore_time.isoformat()}):
        answer = shop.fork(**body).json()
        assert end_of(shop.instance, answer["service_id"]) == "READY"
        assert rows_of(answer["endpoint"]["port"], answer["initial_password"]) == before
        shop.instance.call("DELETE", f"/services/{answer['service_id']}")
    shop.instance.await_idle()
    assert shop.instance.leftovers() == []


@pytest.fixture(scope="module")
def small_instance() -> Iterator[Instance]:
    small = {"RAMET_IMAGE_GBS": "1", "RAMET_STORAGE_DRIVER": "reflink", "RAMET_SNAPSHOT_SECONDS": "3600"}
    with running_instance(None, **{**FREQUENT_SNAPSHOTS, **small}) as made:
        yield made


def test_a_volume_without_room_refuses_forks_up_front_and_one_that_fills_fails_them(small_instance: Instance) -> None:
    shop, pool = make_shop(small_instance), small_instance.backend.pool.path
    before, restore_time = shop.rows(), datetime.now(UTC)
    with ballast(pool, 50):
        refused = shop.fork()
        assert (refused.status_code, refused.json()["code"]) == (400, "NOT_ENOUGH_DISK")
        assert shop.rows() == before
    with ballast(pool, RESERVE_MIB) as fill:
        accepted = shop.fork()
        fill()
        assert accepted.status_code == 202, accepted.text
        failure = end_of(small_instance, accepted.json()["service_id"])
    assert "storage has" in failure or "space" in failure, failure
    check_all_is_well(shop, restore_time, before)


@contextmanager
def few_inodes() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="ramet-inodes-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=30000,size=1g,mode=711", "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
        directory.rmdir()


def test_a_volume_without_inodes_fails_a_fork_with_its_reason() -> None:
    with (
        few_inodes() as directory,
        running_instance(directory, RAMET_STORAGE_DRIVER="copy", **FREQUENT_SNAPSHOTS) as instance,
    ):
        shop = make_shop(instance)
        before, restore_time = shop.rows(), datetime.now(UTC)
        hoard = directory / "hoard"
        hoard.mkdir()
        for number in range(os.statvfs(directory).f_favail - 200):
            (hoard / str(number)).touch()
        answer = shop.fork()
        if answer.status_code == 202:
            failure = end_of(instance, answer.json()["service_id"])
            assert "storage has" in failure or "space" in failure, failure
        else:
            assert answer.json()["code"] == "NOT_ENOUGH_DISK"
        assert shop.rows() == before
        subprocess.run(["rm", "-rf", hoard], check=True)
        check_all_is_well(shop, restore_time, before)


def test_wal_that_cannot_be_archived_is_reported_and_archived_later(instance: Instance) -> None:
    shop = make_shop(instance)
    archive = instance.backend.instances.paths(shop.id).archive
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", archive], check=True)
    try:
        with connect(shop.port, shop.password) as connection:
            for _ in range(4):
                connection.execute("CREATE TABLE wal AS SELECT repeat('x', 100) FROM generate_series(1, 200000)")
                connection.execute("DROP TABLE wal")
        waiting = instance.backend.instances.paths(shop.id).data / "pg_wal" / "archive_status"
        eventually(lambda: len(list(waiting.glob("*.ready"))) > 1, "segments wait")
        for path in waiting.glob("*.ready"):
            os.utime(path, (0, 0))  # as if they had been waiting for long
        eventually(lambda: "restore_warning" in shown(instance, shop.id)["metadata"], "the alarm in metadata")
        assert shop.rows()
    finally:
        subprocess.run(["umount", "--lazy", archive], check=True)
    eventually(lambda: not list(waiting.glob("*.ready")), "all is archived")
    eventually(lambda: "restore_warning" not in shown(instance, shop.id)["metadata"], "no alarm")
