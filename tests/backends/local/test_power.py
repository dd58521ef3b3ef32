"""Power cuts: what a fork is before it is READY counts for nothing after one, and from READY on it survives it."""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.base import Server, Source
from ramet.backends.local import processes, sql
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.paths import ServicePaths
from ramet.errors import Failed
from tests.backends.local.forks import append, create, fork, make_backend, paths_of, rows_of, run_fork
from tests.backends.local.hosts import data_root, eventually, new_server


def reboot_behind(backend: LocalBackend, service_id: str) -> None:
    """Make a capture look as if the host had been started anew since."""
    note = backend.servers.paths(service_id).root / "capture.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "boot_id": "another"}))


def test_a_capture_from_before_a_reboot_is_not_started(backend: LocalBackend) -> None:
    parent = create(backend)
    child = new_server(backend.servers)
    captured = backend.capture(child, Source(parent))
    assert captured is not None
    reboot_behind(backend, child.service_id)
    with pytest.raises(Failed, match="restarted while"):
        backend.recover(child, captured, 0.5)


@pytest.mark.parametrize("note", ["", "{", "{}"])
def test_a_capture_from_before_a_reboot_is_made_anew(backend: LocalBackend, note: str) -> None:
    parent = create(backend)
    child = new_server(backend.servers)
    backend.capture(child, Source(parent))
    (backend.servers.paths(child.service_id).root / "capture.json").write_text(note)
    append(backend, parent, 1)
    captured = backend.capture(child, Source(parent))
    run_fork(backend, child, captured)
    assert rows_of(backend, child) == [1]


@pytest.mark.root
def test_from_ready_on_a_fork_survives_a_power_cut() -> None:
    with make_backend("reflink") as backend, data_root() as elsewhere:
        parent = create(backend)
        append(backend, parent, 1, 2)
        forked = fork(backend, parent).server
        backend.secure(forked, newborn=False, quiet=True)
        backend.open(forked)
        append(backend, forked, 3)
        cut = elsewhere / "cut.img"
        shutil.copy(image_of(backend), cut)  # what is on the disk at this moment; dirty pages are not
        backend.stop(forked)
        with mounted(cut, elsewhere / "cut") as pool:
            found = ServicePaths(pool / "services" / forked.service_id, paths_of(backend, forked).sockets)
            found.sockets.mkdir(exist_ok=True)
            backend.servers.account.own(found.sockets)
            assert not (found.root / "data" / "backup_label").exists()
            assert rows_after_start(backend, forked, found) == [1, 2, 3]


def image_of(backend: LocalBackend) -> Path:
    assert backend.pool.image is not None
    return backend.pool.image


@contextlib.contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-o", "loop,nouuid", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def rows_after_start(backend: LocalBackend, server: Server, paths: ServicePaths) -> list[int]:
    installation = backend.servers.installations.of(server.pg_major)
    processes.start(paths, installation, backend.servers.account)
    try:
        eventually(lambda: processes.await_ready(paths, 0.5).ready, 60)
        with sql.connect(paths) as connection:
            return [row[0] for row in connection.execute("SELECT n FROM public.ledger ORDER BY n").fetchall()]
    finally:
        eventually(lambda: processes.stop(paths, 0.5), 60)
