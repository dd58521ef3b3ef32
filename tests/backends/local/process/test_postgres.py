"""Server processes: found again, never mistaken, ended in order."""

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import identity, postgres
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.errors import Failed, Unavailable
from tests.backends.local.hosts import boot, new_server, restart


@pytest.fixture(scope="module")
def server(instances: Instances) -> Iterator[Server]:
    made = new_server(instances)
    boot(instances, made)
    yield made
    instances.remove(made.service_id, 10)


@pytest.fixture
def running(instances: Instances, server: Server) -> Server:
    """A server that serves when the test begins."""
    eventually(lambda: _started(instances, server))
    return server


def _started(instances: Instances, server: Server) -> bool:
    try:
        restart(instances, server)
    except Unavailable:
        return False
    return True


def _pid(instances: Instances, server: Server) -> int:
    pid = postgres.running(instances.paths(server.service_id))
    assert pid is not None
    return pid


def test_a_running_server_is_not_started_again(instances: Instances, running: Server) -> None:
    pid = _pid(instances, running)
    instances.start(running)
    assert _pid(instances, running) == pid


def test_a_link_in_place_of_its_first_log_is_replaced(instances: Instances, running: Server, tmp_path: Path) -> None:
    assert instances.stop(running, 20)
    victim, log = tmp_path / "victim", instances.paths(running.service_id).start_log
    victim.write_text("kept")
    log.unlink()
    log.symlink_to(victim)
    restart(instances, running)
    assert victim.read_text() == "kept"
    assert not log.is_symlink()


def test_many_starts_at_once_make_one_server(instances: Instances, running: Server) -> None:
    assert instances.stop(running, 20)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(instances.start, [running] * 8))
    restart(instances, running)
    server = _pid(instances, running)
    eventually(lambda: _strangers(instances, running) == {server})


def _strangers(instances: Instances, server: Server) -> set[int]:
    """Return the processes in a data directory that are not children of another process there."""
    found = identity.processes_in(instances.paths(server.service_id).data)
    children = {child for pid in found for child, _ in identity.children_of(pid)}
    return set(found) - children


def test_a_running_server_is_found_without_a_record(instances: Instances, running: Server) -> None:
    pid = _pid(instances, running)
    record = instances.paths(running.service_id).process_record
    known = record.read_text()
    record.unlink()
    assert _pid(instances, running) == pid
    assert instances.await_ready(running, 1).ready
    record.write_text(known)


def test_a_server_is_found_while_the_kernel_shows_no_arguments_yet(
    instances: Instances, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During exec the arguments are empty: a fork that had just been started was taken for dead."""
    pid = _pid(instances, running)
    monkeypatch.setattr(identity, "_arguments", lambda _pid: [""])
    assert postgres.running(instances.paths(running.service_id)) == pid


def test_a_server_runs_as_the_account_with_a_clean_environment(instances: Instances, running: Server) -> None:
    process = psutil.Process(_pid(instances, running))
    assert process.username() == instances.account.name
    assert set(process.environ()) <= {"LC_ALL", "TZ", "PATH", "PG_GRANDPARENT_PID", "PGDATA"}
    assert os.getsid(process.pid) == process.pid


def test_a_copied_lock_file_never_leads_to_the_other_server(instances: Instances, running: Server) -> None:
    pid = _pid(instances, running)
    other = new_server(instances)
    instances.make_directories(other)
    paths, parent = instances.paths(other.service_id), instances.paths(running.service_id)
    shutil.copytree(parent.data, paths.data)
    shutil.copy2(parent.process_record, paths.process_record)
    for path in (paths.data, *paths.data.rglob("*")):
        instances.account.own(path)
    assert postgres.running(paths) is None
    assert instances.stop(other, 1)
    instances.remove(other.service_id, 5)
    assert _pid(instances, running) == pid
    assert psutil.pid_exists(pid)


def test_a_lock_file_with_the_pid_of_another_process_does_not_prevent_the_start(
    instances: Instances, running: Server
) -> None:
    paths = instances.paths(running.service_id)
    assert instances.stop(running, 20)
    paths.pid_file.write_text(f"{os.getpid()}\n{paths.data}\n1\n1\n\n\n\nready\n")
    (paths.sockets / f".s.PGSQL.{running.port}.lock").write_text(f"{os.getpid()}\n")
    assert not postgres.is_ready(paths)
    restart(instances, running)
    assert _pid(instances, running) != os.getpid()


def test_a_killed_server_is_found_dead_and_starts_again(instances: Instances, running: Server) -> None:
    paths = instances.paths(running.service_id)
    pid = _pid(instances, running)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: postgres.running(paths) is None and not psutil.pid_exists(pid))
    assert not postgres.is_ready(paths)
    eventually(lambda: _started(instances, running))


def test_a_server_that_dies_while_starting_is_reported_with_the_end_of_its_log(
    instances: Instances, running: Server
) -> None:
    assert instances.stop(running, 20)
    instances.start(running, overrides={"shared_preload_libraries": "no_such_library"})
    with pytest.raises(Failed, match="no_such_library") as failure:
        eventually(lambda: instances.await_ready(running, 0.5).ready)
    assert failure.value.code == "SERVER_DIED"


def test_overrides_apply_to_one_run_only(instances: Instances, running: Server) -> None:
    paths = instances.paths(running.service_id)
    assert instances.stop(running, 20)
    instances.start(running, overrides={"max_logical_replication_workers": "0"})
    eventually(lambda: instances.await_ready(running, 0.5).ready)
    instances.open(running)
    with connections.connect(paths) as connection:
        assert connection.execute("SHOW max_logical_replication_workers").fetchone() == ("0",)
        assert connection.execute("SELECT count(*) FROM pg_settings WHERE pending_restart").fetchone() == (0,)
    assert instances.stop(running, 20)
    restart(instances, running)
    with connections.connect(paths) as connection:
        assert connection.execute("SHOW max_logical_replication_workers").fetchone() == ("4",)


def test_a_server_in_recovery_shows_progress(instances: Instances, running: Server) -> None:
    paths = instances.paths(running.service_id)
    assert instances.stop(running, 20)
    (paths.data / "standby.signal").touch()
    try:
        instances.start(running, overrides={"hot_standby": "off"})
        readiness = instances.await_ready(running, 0.3)
        assert not readiness.ready
        assert "work" in readiness.progress
    finally:
        (paths.data / "standby.signal").unlink()
        assert postgres.kill(paths, 10)


def test_a_stop_takes_no_longer_than_the_callers_timeout(instances: Instances, running: Server) -> None:
    paths = instances.paths(running.service_id)
    os.kill(_pid(instances, running), signal.SIGSTOP)
    assert not instances.stop(running, 0.05)
    os.kill(_pid(instances, running), signal.SIGCONT)
    eventually(lambda: instances.stop(running, 1))
    eventually(lambda: identity.processes_in(paths.data) == [])


def test_a_kill_ends_a_server_that_does_not_listen(instances: Instances, running: Server) -> None:
    paths = instances.paths(running.service_id)
    os.kill(_pid(instances, running), signal.SIGSTOP)
    assert postgres.kill(paths, 0.5) or postgres.kill(paths, 10)
    assert identity.processes_in(paths.data) == []


def test_orphans_of_a_killed_server_hold_the_start_back(instances: Instances, running: Server) -> None:
    paths = instances.paths(running.service_id)
    checkpointer = next(p for p, title in identity.children_of(_pid(instances, running)) if "checkpointer" in title)
    os.kill(checkpointer, signal.SIGSTOP)
    os.kill(_pid(instances, running), signal.SIGKILL)
    eventually(lambda: postgres.running(paths) is None)
    with pytest.raises(Unavailable, match="still shutting down"):
        instances.start(running)
    os.kill(checkpointer, signal.SIGCONT)
    eventually(lambda: identity.processes_in(paths.data) == [])
    restart(instances, running)


def test_a_removed_server_leaves_nothing_but_its_trees(instances: Instances) -> None:
    made = new_server(instances)
    boot(instances, made)
    paths = instances.paths(made.service_id)
    instances.remove(made.service_id, 10)
    instances.remove(made.service_id, 10)
    assert postgres.running(paths) is None
    assert sorted(path.name for path in paths.root.iterdir()) == ["data", "snapshots"]
    assert not paths.sockets.exists()


@pytest.mark.parametrize(
    ("titles", "starts"),
    [
        ([], False),  # a kernel without CONFIG_PROC_CHILDREN
        (["postgres: x: logger", "postgres: x: startup recovering 000000010000000000000001"], True),
        (["postgres: x: logger", "postgres: x: walwriter"], False),
    ],
)
def test_a_server_starts_only_where_its_processes_say_so(
    instances: Instances, running: Server, monkeypatch: pytest.MonkeyPatch, titles: list[str], *, starts: bool
) -> None:
    monkeypatch.setattr(postgres, "children_of", lambda _pid: enumerate(titles))
    assert postgres.is_starting(instances.paths(running.service_id)) is starts
