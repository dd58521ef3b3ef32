"""A service takes no more of the storage than its quota, where the file system has quotas; forks are none the worse."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.volumes.project_quota import ProjectQuotas, attributes, project_of
from ramet.backends.local.volumes.quota import NoQuotas, Place
from ramet.errors import Failed
from tests.backends.local.forks import append, create, destroy_all, fork, paths_of, rows_of, run, snapshot
from tests.backends.local.hosts import data_root
from tests.backends.local.pools import make_pool

pytestmark = pytest.mark.root
MIB = 1024**2
QUOTA = 320 * MIB


@contextlib.contextmanager
def limited(driver: str) -> Iterator[LocalBackend]:
    with data_root() as root, make_pool(root, driver):
        backend = open_backend(root, service_quota_bytes=QUOTA)
        try:
            yield backend
        finally:
            destroy_all(backend)
            shutil.rmtree(backend.instances.layout.sockets, ignore_errors=True)


@pytest.fixture(params=["btrfs", pytest.param("reflink", marks=pytest.mark.xfs_quota)])
def enforcing(request: pytest.FixtureRequest) -> Iterator[LocalBackend]:
    """A backend whose file system enforces quotas; kernels may lack those of XFS."""
    with limited(request.param) as backend:
        assert not isinstance(backend.instances.quotas, NoQuotas), backend.instances.quotas.describe()
        yield backend


def fill(backend: LocalBackend, server: Server) -> OSError | None:
    """Write into the data directory of a service until it may not, beside its server."""
    with (paths_of(backend, server).data / "ballast").open("wb", buffering=0) as file:
        try:
            for _ in range(2 * QUOTA // MIB):
                file.write(os.urandom(MIB))
                os.fsync(file.fileno())
        except OSError as error:
            return error
    return None


def test_a_service_is_short_of_its_quota_before_it_is_used_up_and_its_fork_is_not(enforcing: LocalBackend) -> None:
    parent = create(enforcing)
    append(enforcing, parent, 1)
    assert enforcing.host.storage_pressure(parent, lasting=False) is None
    assert fill(enforcing, parent) is not None
    assert enforcing.pool.free_bytes() > QUOTA
    assert "of its quota left" in (enforcing.host.storage_pressure(parent, lasting=False) or "")
    (paths_of(enforcing, parent).data / "ballast").unlink()
    os.sync()
    eventually(lambda: enforcing.host.storage_pressure(parent, lasting=False) is None)
    forked = fork(enforcing, parent)
    assert rows_of(enforcing, forked.server) == [1]
    assert enforcing.host.storage_pressure(forked.server, lasting=False) is None
    assert "0.3125 GiB" in dict(enforcing.host.describe())["quotas"]


def test_a_host_without_quotas_describes_why(backend: LocalBackend) -> None:
    assert "RAMET_SERVICE_QUOTA_GBS is not set" in dict(backend.host.describe())["quotas"]


@dataclass(frozen=True)
class Unenforced(ProjectQuotas):
    """Projects on a kernel that may not limit them."""

    def apply(self, place: Place) -> None:
        self.enclose(place)


@pytest.fixture
def projects() -> Iterator[LocalBackend]:
    with limited("reflink") as backend:
        quotas = Unenforced(backend.pool.path, QUOTA)
        yield replace(backend, instances=replace(backend.instances, quotas=quotas))


def test_all_files_of_a_service_but_its_snapshots_have_its_project(projects: LocalBackend) -> None:
    parent = create(projects)
    append(projects, parent, 1)
    snapshot_id, _ = snapshot(projects, parent)
    paths, project = paths_of(projects, parent), project_of(parent.service_id)
    for path in (paths.data / "base", paths.data / "pg_wal", paths.archive, paths.log):
        assert attributes(path) == (True, project)
    assert attributes(paths.data / "PG_VERSION")[1] == project
    assert attributes(paths.snapshots / snapshot_id / "data") == (False, 0)


def test_a_fork_of_a_prepared_snapshot_begins_with_a_copy_in_its_project(projects: LocalBackend) -> None:
    parent = create(projects)
    append(projects, parent, 1)
    snapshot_id, _ = snapshot(projects, parent)
    eventually(lambda: projects.restore.prepare_snapshot(parent, snapshot_id, 0.5, 2) is None)
    forked = fork(projects, parent, snapshot_id)
    assert "prepared" in forked.capture.facts
    assert rows_of(projects, forked.server) == [1]
    data = paths_of(projects, forked.server).data
    found = {attributes(path)[1] for path in (data, data / "base", data / "PG_VERSION")}
    assert found == {project_of(forked.server.service_id)}


def test_a_service_from_before_the_quota_is_enclosed_when_its_server_starts(projects: LocalBackend) -> None:
    earlier = replace(projects, instances=replace(projects.instances, quotas=NoQuotas("none was wanted")))
    parent = create(earlier)
    append(earlier, parent, 1)
    paths = paths_of(projects, parent)
    assert attributes(paths.data)[1] == 0
    projects.servers.stop(parent)
    run(projects, parent)
    append(projects, parent, 2)
    assert attributes(paths.data / "base") == (True, project_of(parent.service_id))
    assert rows_of(projects, parent) == [1, 2]


@dataclass(frozen=True)
class Refused(ProjectQuotas):
    """Limits that the kernel does not take."""

    def apply(self, place: Place) -> None:
        raise Failed("PROGRAM_FAILED", "xfs_quota ended with status 1")


def test_a_limit_that_the_kernel_refuses_keeps_no_server_from_its_start(projects: LocalBackend) -> None:
    quotas = Refused(projects.pool.path, QUOTA)
    refused = replace(projects, instances=replace(projects.instances, quotas=quotas))
    assert rows_of(refused, create(refused)) == []
