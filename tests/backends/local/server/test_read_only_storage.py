"""When the room of the storage is short, and what gives some back."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.waiting import eventually
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.machine import LocalHost
from ramet.backends.local.server import read_only_storage
from ramet.backends.local.server.read_only_storage import Room
from ramet.backends.local.servers import LocalServers
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.reserve import Reserve
from ramet.backends.local.wal import archive
from ramet.backends.local.wal.segment import Segment
from tests.backends.kubernetes.servers import SHARED, UPSTREAM
from tests.backends.local.forks import append, create, paths_of, rows_of
from tests.backends.local.pools import DRIVERS

MIB, GIB = 1024**2, 1024**3


@pytest.mark.parametrize(
    ("free_mib", "lasting", "is_short"),
    [(127, False, True), (128, False, False), (255, True, True), (256, True, False)],
)
def test_pressure_begins_at_a_limit_and_ends_at_twice_as_much(free_mib: int, lasting: bool, is_short: bool) -> None:
    assert (Room(0, free_mib * MIB, GIB).pressure(lasting=lasting) is not None) is is_short


@pytest.mark.parametrize(("before_mib", "is_short"), [(200, False), (210, False), (260, True), (900, True)])
def test_free_space_that_decreases_fast_is_short_before_the_limit(before_mib: int, is_short: bool) -> None:
    room = Room(10, before_mib * MIB, GIB).then(11, 190 * MIB, GIB)
    assert (room.pressure(lasting=False) is not None) is is_short


def test_an_old_measurement_of_free_space_is_not_extrapolated() -> None:
    assert Room(10, 900 * MIB, GIB).then(1000, 190 * MIB, GIB).pressure(lasting=False) is None


def test_free_space_is_never_short_by_its_decrease_alone() -> None:
    assert Room(10, 900 * GIB, 1000 * GIB).then(11, 700 * GIB, 1000 * GIB).pressure(lasting=False) is None


def test_a_reserve_is_created_once_and_removed(tmp_path: Path) -> None:
    reserve = Reserve([tmp_path])
    for _ in range(2):
        reserve.fill(MIB)
    assert [(path.name, path.stat().st_blocks * 512) for path in tmp_path.iterdir()] == [("reserve", MIB)]
    for _ in range(2):
        reserve.release()
    assert list(tmp_path.iterdir()) == []


def test_where_no_reserve_can_be_taken_nothing_is_left_half_made(tmp_path: Path) -> None:
    Reserve([tmp_path, tmp_path / "missing"]).fill(2**60)
    assert list(tmp_path.iterdir()) == []


def test_a_reserve_that_cannot_be_removed_keeps_no_other_from_being_removed(tmp_path: Path) -> None:
    (tmp_path / "stuck" / "reserve").mkdir(parents=True)
    (tmp_path / "reserve").touch()
    Reserve([tmp_path / "stuck", tmp_path]).release()
    assert [path.name for path in tmp_path.iterdir()] == ["stuck"]


@dataclass(frozen=True)
class Disk:
    """A storage whose free space is just ample; a reserve takes some of it."""

    path: Path
    image: None = None

    def total_bytes(self) -> int:
        return 2560 * MIB

    def free_bytes(self) -> int:
        return 384 * MIB - sum(each.stat().st_size for each in self.path.iterdir())


def test_the_reserve_that_is_created_is_not_taken_for_a_fast_decrease_of_free_space(tmp_path: Path) -> None:
    nothing: Any = None
    host = LocalHost(nothing, cast("Pool", Disk(tmp_path)), nothing, nothing, nothing)
    for _ in range(3):
        assert host.storage_pressure(None, lasting=False) is None
        assert [path.name for path in tmp_path.iterdir()] == ["reserve"]


@pytest.mark.parametrize(("free_mib", "receives"), [(63, False), (64, True)])
def test_a_standby_receives_nothing_from_when_half_of_the_limit_is_left(
    monkeypatch: pytest.MonkeyPatch, free_mib: int, receives: bool
) -> None:
    pool: Any = SimpleNamespace(
        driver=SimpleNamespace(shares_blocks=False), free_bytes=lambda: free_mib * MIB, total_bytes=lambda: GIB
    )
    instances: Any = SimpleNamespace(paths=lambda service_id: service_id)
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        read_only_storage, "set_read_only", lambda _paths, *, is_standby, receives: made.append((is_standby, receives))
    )
    servers = LocalServers(instances, pool, cast("Any", None))
    for server in (SHARED, replace(SHARED, upstream=UPSTREAM)):
        servers.set_read_only(server, read_only=True)
    assert made == [(False, receives), (True, receives)]


def test_sessions_with_large_files_are_found_while_a_file_set_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "data" / "base" / "pgsql_tmp"
    going, staying = temporary / "pgsql_tmp7.0.fileset", temporary / "pgsql_tmp8.0.fileset"
    for directory, name in ((going, "i1of1.p0.0"), (staying, "i1of1.p0.0"), (temporary, "pgsql_tmp9.0")):
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / name).open("wb") as file:
            file.truncate(17 * MIB)
    scandir = os.scandir

    def remove_first(path: Any) -> Any:
        if str(path) == str(going):
            shutil.rmtree(going)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_first)
    found = read_only_storage._sessions_with_large_files(ServicePaths(tmp_path, tmp_path))
    assert sorted(found) == [8, 9]


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Path]:
    def made(name: str) -> Path:
        (tmp_path / name).mkdir(exist_ok=True)
        return tmp_path / name

    return made


def test_segments_that_wait_are_archived_without_a_copy(place: Callable[[str], Path]) -> None:
    waiting, wal, archived = place("status"), place("wal"), place("archive")
    names = [Segment(1, number).name for number in (1, 2, 3)]
    for name in names:
        (wal / name).write_text(name)
        (waiting / f"{name}.ready").touch()
    (archived / names[1]).write_text("of another history")
    (wal / names[2]).unlink()
    assert archive.link_waiting(waiting, wal, archived, CopyDriver().clone_file) == 1
    assert (archived / names[0]).samefile(wal / names[0])
    assert sorted(path.name for path in waiting.iterdir()) == [
        f"{names[0]}.done", f"{names[1]}.ready", f"{names[2]}.ready",
    ]  # fmt: skip
    assert archive.link_waiting(waiting, wal, archived, CopyDriver().clone_file) == 0


@pytest.mark.parametrize("backend_of_driver", [one for one in DRIVERS if one != "copy"], indirect=True)
def test_a_server_whose_segments_were_archived_for_it_serves_again(each_backend: LocalBackend) -> None:
    backend = each_backend
    parent = create(backend)
    paths = paths_of(backend, parent)
    status = paths.data / "pg_wal" / "archive_status"
    for number in range(4):
        append(backend, parent, number)
        with connections.connect(paths) as connection:
            connection.execute("SELECT pg_switch_wal()")
        archive.link_waiting(status, paths.data / "pg_wal", paths.archive, backend.pool.driver.clone_file)
    eventually(lambda: not list(status.glob("*.ready")))
    with connections.connect(paths) as connection:
        connection.execute("CHECKPOINT")
    assert len(list(paths.archive.glob("0*"))) >= 4
    assert rows_of(backend, parent) == [0, 1, 2, 3]
