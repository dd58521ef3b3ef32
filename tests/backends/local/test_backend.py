"""The backend as a whole: the life of a service, what it refuses, and that nothing of it is left at the end."""

import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Capture, Server, Source
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.host.cgroups import NoLimits
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import find_server
from ramet.backends.local.restore import base_backup
from ramet.backends.local.server.read_only_storage import room_of
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.mounts import mounted_at
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Exhausted, Failed, Unavailable
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.size import Size
from tests.backends.local.forks import (
    append,
    create,
    fork,
    now,
    paths_of,
    rows_of,
    run,
    run_fork,
    services_of,
    snapshot,
)
from tests.backends.local.hosts import connect, data_root, new_server


def test_a_service_and_its_fork_serve_their_own_clients(each_backend: LocalBackend) -> None:
    backend, password = each_backend, new_password()
    parent = new_server(backend.instances, password)
    backend.servers.initialize(parent)
    run(backend, parent)
    backend.servers.secure(parent, is_new=True, neutralize=False)
    backend.servers.open(parent)
    with _enter(parent, password) as client:
        client.execute("CREATE TABLE kept AS SELECT 7 AS n")
    own_password = new_password()
    child = new_server(backend.instances, own_password)
    captured = backend.restore.capture(child, Source(parent))
    assert captured is not None
    run_fork(backend, child, captured)
    assert backend.servers.secure(child, is_new=False, neutralize=True)["roles_rotated"] == 1
    backend.servers.open(child)
    with _enter(child, own_password) as client:
        assert client.execute("SELECT n FROM kept").fetchone() == (7,)
    with pytest.raises(Exception, match="password authentication failed"):
        _enter(child, password)


def test_nothing_of_a_destroyed_service_is_left(each_backend: LocalBackend) -> None:
    backend = each_backend
    parent = create(backend)
    snapshot(backend, parent)
    child = fork(backend, parent).server
    for server in (child, parent):
        paths = paths_of(backend, server)
        pid = find_server(paths)
        assert pid is not None
        for _ in range(2):
            backend.servers.destroy(server.service_id)
        assert not psutil.pid_exists(pid)
        assert not paths.sockets.exists()
        assert backend.host.port_is_free(server.port)
    assert services_of(backend) == []


def test_an_incomplete_fork_can_be_destroyed(backend: LocalBackend, parent: Server) -> None:
    child = new_server(backend.instances)
    backend.servers.destroy(child.service_id)
    backend.restore.capture(child, Source(parent))
    (paths_of(backend, child).root / "data.unfinished").mkdir()
    backend.servers.destroy(child.service_id)
    assert services_of(backend) == [parent.service_id]


def test_an_incomplete_cluster_is_created_again(each_backend: LocalBackend) -> None:
    server = new_server(each_backend.instances)
    paths = each_backend.instances.make_directories(server)
    each_backend.pool.driver.create_tree(paths.data)
    (paths.data / "PG_VERSION").write_text("15\n")
    for _ in range(2):
        each_backend.servers.initialize(server)
    run(each_backend, server)
    each_backend.servers.initialize(server)
    assert postgres.is_ready(paths)


def test_stopping_ends_sessions_and_keeps_what_was_committed(backend: LocalBackend) -> None:
    password = new_password()
    server = new_server(backend.instances, password)
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    with _enter(server, password) as client:
        client.execute("CREATE TABLE kept AS SELECT 1 AS n")
        client.execute("BEGIN")
        client.execute("INSERT INTO kept VALUES (2)")
        for _ in range(2):
            backend.servers.stop(server)
        with pytest.raises(Exception, match=r"terminat|closed"):
            client.execute("COMMIT")
    assert find_server(paths_of(backend, server)) is None
    run(backend, server)
    backend.servers.open(server)
    with _enter(server, password) as client:
        assert client.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_stopping_a_crashed_server_leaves_it_cleanly_stopped(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    assert postgres.kill(paths_of(backend, parent), 10)
    backend.servers.stop(parent)
    forked = fork(backend, parent, paused=True)
    assert forked.capture.facts["clean"]
    assert rows_of(backend, forked.server) == [1]


def test_stopping_may_be_repeated_while_it_is_in_progress(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    postgres.stop(paths_of(backend, parent), 0)
    backend.servers.stop(parent)
    assert fork(backend, parent, paused=True).capture.facts["clean"]


def test_all_wal_of_a_stopped_service_is_archived(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1)
    with connections.connect(paths_of(backend, parent)) as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_current_wal_lsn())").fetchone()
    backend.servers.stop(parent)
    assert row is not None
    assert (paths_of(backend, parent).archive / row[0]).exists()


def captured_between_two_rows(backend: LocalBackend, parent: Server) -> tuple[Server, Capture]:
    """Capture for a fork to the time after row 1 and before row 2."""
    snapshot_id, _ = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 1)
    append(backend, parent, 2)
    child = new_server(backend.instances)
    captured = backend.restore.capture(child, Source(parent, snapshot_id=snapshot_id, target=restore_time))
    assert captured is not None
    return child, captured


def test_a_fork_whose_server_is_killed_in_recovery_recovers_again(backend: LocalBackend, parent: Server) -> None:
    child, captured = captured_between_two_rows(backend, parent)
    kills = 0
    while kills < 3 and backend.restore.recover(child, captured, 0.0).facts is None:
        kills += postgres.kill(paths_of(backend, child), 10)
    assert kills
    assert run_fork(backend, child, captured)["last_commit_time"] is not None
    assert rows_of(backend, child) == [1]


@pytest.mark.parametrize("pause_seconds", [0.0, 0.002, 0.01, 0.03])
def test_a_fork_that_is_killed_as_its_recovery_ends_holds_what_it_should(
    backend: LocalBackend, parent: Server, pause_seconds: float
) -> None:
    """PostgreSQL forgets the target before it has left the old timeline."""
    child, captured = captured_between_two_rows(backend, parent)
    assert backend.restore.recover(child, captured, 0.0).facts is None
    signal_file = paths_of(backend, child).data / "recovery.signal"
    eventually(lambda: not signal_file.exists())
    time.sleep(pause_seconds)
    assert postgres.kill(paths_of(backend, child), 10)
    assert run_fork(backend, child, captured)["last_commit_time"] is not None
    assert rows_of(backend, child) == [1]


def test_a_server_without_its_volume_is_not_started(backend: LocalBackend, parent: Server) -> None:
    assert postgres.kill(paths_of(backend, parent), 10)
    backend.pool.driver.remove_tree(paths_of(backend, parent).data)
    with pytest.raises(Failed, match="is lost"):
        backend.servers.start(parent)
    assert backend.servers.inspect(parent).reason.endswith("is lost.")


def test_observation_tells_a_serving_server_from_one_that_is_closed_or_down(
    backend: LocalBackend, parent: Server
) -> None:
    seen = backend.servers.inspect(parent)
    assert (seen.serving, seen.is_closed, seen.reason) == (True, True, "Its server turns clients away.")
    backend.servers.open(parent)
    seen = backend.servers.inspect(parent)
    assert (seen.serving, seen.is_closed, seen.reason) == (True, False, "")
    pid = find_server(paths_of(backend, parent))
    assert pid is not None
    psutil.Process(pid).send_signal(signal.SIGKILL)
    eventually(lambda: backend.servers.inspect(parent).reason == "Its server is not running.")
    assert not backend.servers.inspect(parent).serving


def test_a_server_that_may_have_lost_commits_in_a_crash_has_another_commit_mark(
    backend: LocalBackend, parent: Server
) -> None:
    mark_of = backend.replication.commit_mark
    eventually(lambda: mark_of(parent) is not None)
    mark = mark_of(parent)
    with suppress(Unavailable), connections.connect(paths_of(backend, parent)) as connection:
        psutil.Process(connection.info.backend_pid).send_signal(signal.SIGKILL)
        connection.execute("SELECT pg_sleep(60)")
    eventually(lambda: mark_of(parent) not in (mark, None))


def test_space_grows_with_what_is_written_and_not_with_forks_that_share(each_backend: LocalBackend) -> None:
    backend = each_backend
    parent = create(backend)
    child = fork(backend, parent).server
    before = backend.host.disk_usage(child.service_id)
    with connections.connect(paths_of(backend, child)) as connection:
        connection.execute("CREATE TABLE public.more AS SELECT repeat('x', 100) FROM generate_series(1, 200000)")
        connection.execute("CHECKPOINT")
    after = backend.host.disk_usage(child.service_id)
    assert before is not None
    assert after is not None
    assert after > before + 20_000_000
    assert backend.host.disk_usage("nosuchone1") is None


def test_a_trimmed_archive_still_serves_the_window_that_is_left(backend: LocalBackend, parent: Server) -> None:
    snapshot(backend, parent)
    append(backend, parent, 1)
    snapshot_id, facts = snapshot(backend, parent)
    (restore_time,) = append(backend, parent, 2)
    append(backend, parent, 3)
    archive = paths_of(backend, parent).archive
    eventually(lambda: len(list(archive.glob("0000????????????????????"))) >= 3)
    assert backend.restore.discard_wal(parent.service_id, facts) >= 2
    assert rows_of(backend, fork(backend, parent, snapshot_id, restore_time).server) == [1, 2]
    assert rows_of(backend, fork(backend, parent, snapshot_id, now()).server) == [1, 2, 3]


def test_a_taken_port_is_not_free(backend: LocalBackend) -> None:
    port = free_port()
    assert backend.host.port_is_free(port)
    for address in ("127.0.0.1", "::1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as taken:
            taken.bind((address, port))
            taken.listen()
            assert not backend.host.port_is_free(port)


def test_a_full_volume_refuses_forks_up_front(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.host.check_room()
    backend.restore.check_fork(Source(parent), None)
    backend.replicas.check_room(parent)

    monkeypatch.setattr(Pool, "free_bytes", lambda _: 1024**2)
    with pytest.raises(Exhausted, match="1 MiB left"):
        backend.restore.check_fork(Source(parent), None)
    with pytest.raises(Exhausted, match="1 MiB left"):
        backend.replicas.check_room(parent)


def test_forks_that_are_copied_leave_the_limit_of_the_storage_free(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, copied_bytes = room_of(backend.pool), 1024**2
    monkeypatch.setattr(Pool, "free_bytes", lambda _: room.limit_bytes + 128 * 1024**2 + 2 * copied_bytes)
    monkeypatch.setattr(base_backup, "copied_bytes", lambda *_: copied_bytes)
    backend.restore.check_fork(Source(parent), None, 2)
    with pytest.raises(Exhausted, match="MiB left"):
        backend.restore.check_fork(Source(parent), None, 3)
    monkeypatch.setattr(base_backup, "copied_bytes", lambda *_: 0)
    monkeypatch.setattr(Pool, "free_bytes", lambda _: 128 * 1024**2)
    backend.restore.check_fork(Source(parent), None, 3)


def test_the_host_is_described(backend: LocalBackend) -> None:
    rows = dict(backend.host.describe())
    assert set(rows) == {
        *("storage", "memory", "postgresql", "tls", "limits", "quotas", "read-only", "poolers", "endpoints", "servers"),
        *("processes", "open files", "shared memory segments", "dynamic shared memory"),
    }
    assert backend.host.volume_type() in rows["storage"]
    size = backend.host.size()
    assert size.cpu_millis is not None
    assert size.cpu_millis >= 1000


def test_a_data_root_is_closed_and_opened_again_with_its_services() -> None:
    with data_root() as root:
        backend = open_backend(root)
        server = new_server(backend.instances, verifier=scram_verifier(new_password()), size=Size(500, 2))
        backend.servers.initialize(server)
        run(backend, server)
        limits = backend.instances.limits
        assert limits.names() == ([] if isinstance(limits, NoLimits) else [server.service_id])
        backend.host.stop_all()
        assert limits.names() == []
        assert find_server(paths_of(backend, server)) is None
        assert mounted_at(backend.pool.path) is None
        assert not backend.instances.layout.sockets.exists()
        backend = open_backend(root)
        assert backend.servers.inspect(server).reason == "Its server is not running."
        run(backend, server)
        assert backend.servers.inspect(server).serving
        backend.servers.destroy(server.service_id)
        backend.host.stop_all()


def test_stopping_a_server_that_is_shutting_down_may_be_repeated(
    backend: LocalBackend, parent: Server, tmp_path: Path
) -> None:
    assert postgres.kill(paths_of(backend, parent), 10)
    with pytest.raises(Unavailable), connections.connect(paths_of(backend, parent)):
        pass
    assert backend.restore.capture(new_server(backend.instances), Source(parent)) is None


def _enter(server: Server, password: Secret) -> psycopg.Connection[tuple[object, ...]]:
    """Connect as a client, with TLS where the installation has it."""
    return connect(server, password, sslmode="prefer")
