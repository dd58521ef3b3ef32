"""A pooler that somebody starts while its service is being deleted does not outlive it."""

from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local import servers
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.pooler import pooler
from ramet.backends.local.process.daemon import Daemon
from ramet.backends.local.process.identity import processes_in
from ramet.backends.local.upgrades import cluster
from ramet.backends.local.volumes.driver import Driver
from ramet.errors import Unavailable


def test_one_that_is_started_too_early_ends_with_the_service(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, started = backend.instances.account, list[int]()

    def start(_driver: Driver, paths: ServicePaths) -> None:
        daemon = Daemon(paths.root / pooler.BALANCER)
        account.make_directory(daemon.home)
        started.append(daemon.start(["sleep", "600"], account))

    monkeypatch.setattr(cluster, "remove", start)
    backend.servers.destroy(parent.service_id)
    with pytest.raises(OSError, match="No such"):
        Path(f"/proc/{started[0]}/cwd").readlink()


def test_one_that_is_started_too_late_is_not_started(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = backend.instances.paths(parent.service_id)
    monkeypatch.setattr(pooler, "ensure_pooler_role_of", lambda _: None)
    monkeypatch.setattr(pooler, "check_database", lambda _: None)
    with monkeypatch.context() as patched:
        patched.setattr(servers, "remove_files", lambda _: None)  # its directory is the last thing that goes
        backend.servers.destroy(parent.service_id)
    with pytest.raises(Unavailable, match="is being deleted"):
        backend.poolers.start([parent], 1)
    assert list(processes_in(paths.root / pooler.POOLER)) == []
    backend.servers.destroy(parent.service_id)
    assert not paths.root.exists()
