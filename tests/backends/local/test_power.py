"""Power cuts: what a fork is before it is READY counts for nothing after one, and from READY on it survives it."""

import contextlib
import errno
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import Layout
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import capture, secured_copy
from ramet.backends.local.restore.offline_verifier import has_verifier
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.syscalls import NotFlushed
from ramet.errors import Failed
from ramet.store import projects
from ramet.store.database import Store
from tests.backends.local.forks import (
    append,
    create,
    exchange,
    fork,
    make_backend,
    paths_of,
    recover,
    rows_of,
    run_fork,
    snapshot,
)
from tests.backends.local.hosts import data_root, new_server
from tests.store.values import a_project


def reboot_behind(backend: LocalBackend, service_id: str) -> None:
    """Make a capture look as if the host had been rebooted since."""
    note = backend.instances.paths(service_id).root / "capture.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "boot_id": "another"}))


def test_a_capture_from_before_a_reboot_is_not_started(backend: LocalBackend) -> None:
    parent = create(backend)
    child = new_server(backend.instances)
    captured = backend.restore.capture(child, Source(parent))
    assert captured is not None
    reboot_behind(backend, child.service_id)
    with pytest.raises(Failed, match="restarted while"):
        backend.restore.recover(child, captured, 0.5)


@pytest.mark.parametrize("note", ["", "{", "{}"])
def test_a_capture_from_before_a_reboot_is_repeated(backend: LocalBackend, note: str) -> None:
    parent = create(backend)
    child = new_server(backend.instances)
    backend.restore.capture(child, Source(parent))
    (backend.instances.paths(child.service_id).root / "capture.json").write_text(note)
    append(backend, parent, 1)
    captured = backend.restore.capture(child, Source(parent))
    run_fork(backend, child, captured)
    assert rows_of(backend, child) == [1]


def test_a_fork_that_was_started_is_started_again_after_a_reboot(backend: LocalBackend) -> None:
    parent = create(backend)
    append(backend, parent, 1)
    forked = fork(backend, parent).server
    postgres.kill(paths_of(backend, forked), 10)
    reboot_behind(backend, forked.service_id)
    backend.servers.start(forked, first=True)
    eventually(lambda: backend.servers.await_ready(forked, 0.5).ready)
    assert rows_of(backend, forked) == [1]


def test_a_capture_that_is_repeated_is_not_flushed_before_its_start(backend: LocalBackend) -> None:
    parent = create(backend)
    forked = fork(backend, parent).server
    postgres.kill(paths_of(backend, forked), 10)
    reboot_behind(backend, forked.service_id)
    backend.restore.capture(forked, Source(parent))
    reboot_behind(backend, forked.service_id)
    with pytest.raises(Failed, match="restarted while"):
        backend.servers.start(forked, first=True)


def refuse(*_arguments: object) -> None:
    raise NotFlushed(errno.EIO, "Input/output error")


def test_a_fork_that_could_not_be_flushed_is_not_started_with_what_is_left_of_it(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = create(backend), new_server(backend.instances)
    captured = backend.restore.capture(child, Source(parent))
    assert captured is not None
    recover(backend, child, captured)
    monkeypatch.setattr(capture, "flush_tree", refuse)
    with pytest.raises(Failed, match=f"{child.service_id} could not be written to the disk: Input/output error"):
        backend.servers.start(child, first=True)
    assert not capture.is_flushed(paths_of(backend, child))


def test_a_restore_in_place_whose_copy_could_not_be_flushed_fails_before_the_exchange(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, copy = create(backend), replace(new_server(backend.instances), port=0)
    kept, _facts = snapshot(backend, service)
    captured = backend.restore.capture(copy, Source(service, snapshot_id=kept))
    assert captured is not None
    recover(backend, copy, backend.replacements.reserve_timeline(copy, service.service_id, captured))
    monkeypatch.setattr(capture, "flush_tree", refuse)
    with pytest.raises(Failed, match="could not be written to the disk"):
        eventually(lambda: backend.replacements.leave_timeline(copy, service.service_id, 0.5) is None)


@pytest.mark.root
@pytest.mark.parametrize(("is_prepared", "is_secured"), [(False, False), (True, False), (True, True)])
def test_from_ready_on_a_fork_survives_a_power_cut(is_prepared: bool, is_secured: bool) -> None:
    with make_backend("reflink") as backend, data_root() as elsewhere:
        parent = create(backend)
        append(backend, parent, 1, 2)
        if is_prepared:
            snapshot_id, _ = snapshot(backend, parent)
            eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 1) is None)
        made = fork(backend, parent, neutralize=is_secured or None)
        forked = made.server
        assert secured_copy.has_own_verifier(paths_of(backend, forked), forked) is is_secured
        assert ("prepared" in made.capture.facts) is is_prepared
        backend.servers.secure(forked, is_new=False, neutralize=True)
        backend.servers.open(forked)
        append(backend, forked, 3)
        cut = image_on_disk(backend, elsewhere)
        backend.servers.stop(forked)
        with mounted(cut, elsewhere / "cut") as pool:
            layout = Layout(pool / "services", backend.instances.layout.sockets)
            config = replace(backend.instances.config, layout=layout)
            if is_secured:
                assert has_verifier(layout.service(forked.service_id).data / "global" / "1260", forked.verifier)
            assert rows_after_start(replace(backend.instances, config=config), forked) == [1, 2, 3]


@pytest.mark.root
def test_data_that_was_exchanged_survives_a_power_cut_though_it_is_served_by_its_first_start() -> None:
    with make_backend("reflink") as backend, data_root() as elsewhere:
        parent = create(backend)
        append(backend, parent, 1)
        kept, _facts = snapshot(backend, parent)
        append(backend, parent, 2)
        _copy, previous, _first_id = exchange(backend, parent, kept)
        backend.servers.start(parent)
        eventually(lambda: backend.servers.await_ready(parent, 0.5).ready)
        backend.replacements.end_timeline(parent, previous)
        append(backend, parent, 3)
        cut = image_on_disk(backend, elsewhere)
        backend.servers.stop(parent)
        with mounted(cut, elsewhere / "cut") as pool:
            layout = Layout(pool / "services", backend.instances.layout.sockets)
            config = replace(backend.instances.config, layout=layout)
            instances = replace(backend.instances, config=config)
            history = instances.paths(parent.service_id).data / "pg_wal" / "00000002.history"
            assert history.read_bytes() == (paths_of(backend, parent).archive / history.name).read_bytes()
            assert rows_after_start(instances, parent) == [1, 3]


@pytest.mark.root
@pytest.mark.parametrize("early", [True, False])
def test_what_the_store_has_written_survives_a_power_cut(early: bool) -> None:
    with make_backend("reflink") as backend, data_root() as elsewhere:
        store = store_in(backend.pool.path)
        with store.write(early=early) as tx:
            made = a_project(tx)
        cut = image_on_disk(backend, elsewhere)
        store.close()
        with mounted(cut, elsewhere / "cut") as pool, contextlib.closing(store_in(pool)) as found, found.read() as tx:
            assert projects.get_project(tx, made.id) == made


def store_in(directory: Path) -> Store:
    return Store.open(f"sqlite:///{directory}/ramet.db")


def image_on_disk(backend: LocalBackend, elsewhere: Path) -> Path:
    """A copy of the image as it is on disk now, without dirty pages."""
    assert backend.pool.image is not None
    subprocess.run(["cp", "--sparse=always", str(backend.pool.image), str(elsewhere / "cut.img")], check=True)
    return elsewhere / "cut.img"


@contextlib.contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-o", "loop,nouuid", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        unmount = partial(subprocess.run, ["umount", str(place)], capture_output=True, check=False)
        eventually(lambda: unmount().returncode == 0, "the end of all that uses the copy")


def rows_after_start(instances: Instances, server: Server) -> list[int]:
    paths = instances.paths(server.service_id)
    instances.start(server, Phase.CLOSED)
    try:
        eventually(lambda: instances.await_ready(server, 0.5).ready)
        with connections.connect(paths) as connection:
            return [row[0] for row in connection.execute("SELECT n FROM public.ledger ORDER BY n").fetchall()]
    finally:
        eventually(lambda: postgres.stop(paths, 0.5))
