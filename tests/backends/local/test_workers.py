"""What a fork's first start holds back runs once the fork is quieted."""

from dataclasses import replace

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import postgres
from ramet.backends.local.server import configuration
from ramet.backends.local.sql import connections
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.local import forks


def setting(backend: LocalBackend, server: Server, name: str) -> object:
    with connections.connect(forks.paths_of(backend, server)) as connection:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        assert row is not None
        return row[0]


@pytest.mark.parametrize("neutralize", [True, False])
def test_workers_that_only_a_start_switches_on_run_when_a_fork_is_neutralized(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, neutralize: bool
) -> None:
    """With a library that every installation has in the place of TimescaleDB's."""
    monkeypatch.setattr(configuration, "_HAS_WORKERS", "pg_stat_statements")
    made = forks.fork(backend, parent)
    server = replace(made.server, verifier=scram_verifier(new_password()))
    held = configuration.first_boot()
    assert "max_logical_replication_workers" in held
    for name, value in held.items():
        assert setting(backend, server, name) == value == "0"
    backend.servers.secure(server, is_new=False, neutralize=neutralize)
    for name in held:
        assert int(str(setting(backend, server, name))) > 0
    assert setting(backend, server, "listen_addresses") == "localhost"
    assert forks.rows_of(backend, server) == []


def test_a_crashed_server_that_is_started_to_be_stopped_has_no_workers_and_needs_no_library(
    backend: LocalBackend, parent: Server
) -> None:
    """It may be the copy of an upgrade that is tried, which is not neutralized yet; TimescaleDB may be removed."""
    server, seen = forks.fork(backend, parent).server, list[object]()
    names = ("max_logical_replication_workers", "shared_preload_libraries")
    backend.servers.secure(server, is_new=False, neutralize=False)
    assert postgres.kill(forks.paths_of(backend, server), 10)
    backend.servers.halt(server, lambda: seen.extend(setting(backend, server, name) for name in names))
    assert seen == ["0", ""]


def test_a_server_that_a_failed_stop_has_started_serves_after_another_start_only(
    backend: LocalBackend, parent: Server
) -> None:
    """Without its libraries it would not return the compressed rows of TimescaleDB."""
    names = ("max_logical_replication_workers", "shared_preload_libraries")
    usual = [setting(backend, parent, name) for name in names]
    assert backend.servers.inspect(parent).serving
    assert postgres.kill(forks.paths_of(backend, parent), 10)
    backend.instances.boot(parent, configuration.boot_to_stop())
    assert not backend.servers.inspect(parent).serving
    forks.run(backend, parent)
    assert backend.servers.inspect(parent).serving
    assert [setting(backend, parent, name) for name in names] == usual != ["0", ""]


def test_a_fork_without_such_workers_is_not_started_again(backend: LocalBackend, parent: Server) -> None:
    made = forks.fork(backend, parent)
    with connections.connect(forks.paths_of(backend, made.server)) as connection:
        before = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        backend.servers.secure(made.server, is_new=False, neutralize=True)
        assert connection.execute("SELECT pg_postmaster_start_time()").fetchone() == before
