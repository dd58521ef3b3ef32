"""Snapshots where copies share no blocks: packed, exact, and independent of each other and of the live files."""

import json
from collections.abc import Iterator

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.disk_usage import allocated_bytes
from ramet.errors import Failed
from tests.backends.local.forks import append, create, destroy_all, fork, make_backend, now, paths_of, rows_of, snapshot


@pytest.fixture(scope="module")
def backend() -> Iterator[LocalBackend]:
    with make_backend("copy") as made:
        yield made


@pytest.fixture
def parent(backend: LocalBackend) -> Iterator[Server]:
    yield create(backend)
    destroy_all(backend)


def _packed_files(paths: ServicePaths, snapshot_id: str) -> dict[str, int]:
    tree = snapshots.data_of(paths, snapshot_id)
    return {str(path.relative_to(tree)): path.stat().st_ino for path in tree.rglob("*.zst")}


def test_a_packed_snapshot_is_small_and_each_kind_of_fork_of_it_is_exact(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    append(backend, parent, 1, 2)
    snapshot_id, facts = snapshot(backend, parent)
    append(backend, parent, 3)
    target = now()
    append(backend, parent, 4)
    assert allocated_bytes(snapshots.directory_of(paths, snapshot_id)) < facts.size_bytes / 3
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1, 2]
    assert rows_of(backend, fork(backend, parent, snapshot_id, target).server) == [1, 2, 3]
    assert rows_of(backend, fork(backend, parent).server) == [1, 2, 3, 4]


def test_snapshots_share_what_did_not_change_and_outlive_each_other(backend: LocalBackend, parent: Server) -> None:
    paths, bulk = paths_of(backend, parent), list(range(1001, 2001))
    with connections.connect(paths) as connection:
        connection.execute("INSERT INTO public.ledger (n) SELECT generate_series(1001, 2000)")
    first, _ = snapshot(backend, parent)
    append(backend, parent, 1)
    second, _ = snapshot(backend, parent)
    before, after = _packed_files(paths, first), _packed_files(paths, second)
    shared = [name for name, inode in after.items() if before.get(name) == inode]
    with connections.connect(paths) as connection:
        found = connection.execute("SELECT pg_relation_filepath('public.ledger')").fetchone()
    assert len(shared) > len(after) * 0.8
    assert found is not None
    assert f"{found[0]}.zst" in after.keys() - set(shared)
    assert all(path.stat().st_nlink == 1 for path in (paths.data / "base").rglob("*") if path.is_file())
    backend.restore.delete_snapshot(parent.service_id, first)
    forked = fork(backend, parent, second).server
    append(backend, forked, 2)
    assert rows_of(backend, forked) == [1, 2, *bulk]
    assert rows_of(backend, fork(backend, parent, second).server) == [1, *bulk]


def test_snapshots_of_earlier_releases_are_forked_as_they_are(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    _make_earlier_form(backend, paths, snapshot_id)
    append(backend, parent, 2)
    target = now()
    later, _ = snapshot(backend, parent)
    append(backend, parent, 3)
    assert rows_of(backend, fork(backend, parent, snapshot_id).server) == [1]
    assert rows_of(backend, fork(backend, parent, snapshot_id, target).server) == [1, 2]
    assert rows_of(backend, fork(backend, parent, later).server) == [1, 2]


def _make_earlier_form(backend: LocalBackend, paths: ServicePaths, snapshot_id: str) -> None:
    """Make of a snapshot what releases before packed ones would have made."""
    directory = snapshots.directory_of(paths, snapshot_id)
    base = snapshots.copy_data(backend.pool.driver, paths, snapshot_id, directory / "plain")
    base.check_copy(directory / "plain")
    backend.pool.driver.remove_tree(directory / "data")
    (directory / "plain").rename(directory / "data")
    note = json.loads((directory / "base.json").read_bytes())
    assert note.pop("is_packed")
    (directory / "base.json").write_text(json.dumps(note))


def test_a_damaged_snapshot_makes_no_fork(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    path = snapshots.data_of(paths_of(backend, parent), snapshot_id) / "base/1/1259.zst"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Failed, match=r"1259\.zst of a snapshot is damaged"):
        fork(backend, parent, snapshot_id)
