"""What makes a fork is killed on its way: it is begun again, and the fork is exact."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from prove.journal import rows_of
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import find_server, processes_in
from ramet.procedures.servers import MOST_KILLS

pytestmark = [pytest.mark.crash, pytest.mark.slow]
ROWS = 200_000
_MOST_FORKS = 15  # where others use the CPUs, this process is late


def await_status(instance: Instance, service_id: str, wanted: str) -> None:
    def shown() -> Any:
        return instance.call("GET", f"/services/{service_id}").json()

    failure = partial(instance.rows, "SELECT failure FROM service WHERE id = ?", service_id)
    eventually(lambda: shown().get("status") == wanted, lambda: f"{wanted}: {shown()} {failure()}", 0.02)


def kill_on_its_way(paths: ServicePaths, victim: str, is_over: Callable[[], bool]) -> bool:
    """Kill what recovers the fork's data next, or its next server before that is ready; False if all was over first."""

    def target() -> int | None:
        server = find_server(paths)
        if victim == "server":
            return None if postgres.is_ready(paths) else server
        return next((pid for pid in processes_in(paths.data) if server is None), None)

    killed: list[int] = []

    def kill() -> bool:
        pid = target()
        with suppress(ProcessLookupError):  # it has just ended by itself
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return bool(killed) or is_over()

    eventually(kill, victim, 0.0005)
    eventually(lambda: target() is None or not killed, "its end", 0.0005)
    return bool(killed)


def disturbed_fork(instance: Instance, shop: Any, body: dict[str, Any], victim: str, kills: int = 2) -> Any:
    """Return a fork of which processes were killed. One that was faster than the kills is not counted."""
    for _ in range(_MOST_FORKS):
        with connect(shop["endpoint"]["port"], shop["initial_password"]) as connection:
            # A snapshot may have been taken since the rows were written: this is what recovery takes its time for.
            connection.execute("CREATE TABLE IF NOT EXISTS replayed (n bigint)")
            connection.execute("INSERT INTO replayed SELECT generate_series(1, %s)", (ROWS,))
        fork = instance.call("POST", f"/services/{shop['service_id']}/forkService", body).json()
        paths = instance.backend.instances.paths(fork["service_id"])

        def is_over(fork_id: str = fork["service_id"]) -> bool:
            query = "SELECT 1 FROM service WHERE id = ? AND coalesce(ready_at, failed_at) IS NOT NULL"
            return bool(instance.rows(query, fork_id))

        if all(kill_on_its_way(paths, victim, is_over) for _ in range(kills)):
            return fork
    raise AssertionError(f"no {victim} was killed {kills} times in {_MOST_FORKS} forks")


def make_shop(instance: Instance) -> tuple[Any, datetime]:
    """Return a service whose last snapshot has hardly any rows, and a time at which it has many."""
    shop = instance.call("POST", "/services", {"name": "shop"}).json()
    await_status(instance, shop["service_id"], "READY")
    with connect(shop["endpoint"]["port"], shop["initial_password"]) as connection:
        connection.execute("CREATE TABLE ledger (n bigint)")
        connection.execute("INSERT INTO ledger SELECT generate_series(1, %s)", (ROWS,))
        restore_time = datetime.now(UTC)
        connection.execute("INSERT INTO ledger VALUES (0)")
    return shop, restore_time


@pytest.mark.parametrize("strategy", ["NOW", "PITR"])
@pytest.mark.parametrize("victim", ["server", "recovery"])
def test_a_fork_whose_recovery_or_server_is_killed_is_exact(instance: Instance, strategy: str, victim: str) -> None:
    shop, restore_time = make_shop(instance)
    target = {"target_time": restore_time.isoformat()} if strategy == "PITR" else {}
    fork = disturbed_fork(instance, shop, {"fork_strategy": strategy, **target}, victim)
    await_status(instance, fork["service_id"], "READY")
    held = rows_of(fork["endpoint"]["port"], fork["initial_password"])
    assert held == list(range(0 if strategy == "NOW" else 1, ROWS + 1))


def test_a_fork_whose_server_is_killed_each_time_fails_with_its_reason(instance: Instance) -> None:
    shop, _ = make_shop(instance)
    fork = disturbed_fork(instance, shop, {"fork_strategy": "NOW"}, "server", MOST_KILLS + 1)
    query = "SELECT failure FROM service WHERE id = ? AND failed_at IS NOT NULL"
    eventually(lambda: bool(instance.rows(query, fork["service_id"])), "the fork's end")
    ((failure,),) = instance.rows(query, fork["service_id"])
    assert "was killed while starting" in failure
    assert instance.call("GET", f"/services/{shop['service_id']}").json()["status"] == "READY"


def kill_at(instance: Instance, fork: dict[str, Any], step: str) -> bool:
    """Kill the server of a fork that is at a step; False when it had passed it before everything else was stopped."""
    assert instance.process is not None
    current = "SELECT step FROM operation WHERE subject = ? AND procedure = 'fork'"

    def now() -> str:
        return str(instance.rows(current, fork["service_id"])[0][0])

    paths = instance.backend.instances.paths(fork["service_id"])
    eventually(lambda: now() in (step, "publish") and find_server(paths) is not None, step, 0.0002)
    instance.process.send_signal(signal.SIGSTOP)
    try:
        server = find_server(paths)
        if now() != step or server is None:
            return False
        os.kill(server, signal.SIGKILL)
        return True
    finally:
        instance.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("step", ["boot", "secure", "publish"])
def test_a_fork_whose_server_is_killed_before_it_is_open_continues(instance: Instance, step: str) -> None:
    shop, _ = make_shop(instance)
    parent = shop["service_id"]
    for _ in range(20):
        fork = instance.call("POST", f"/services/{parent}/forkService", {"fork_strategy": "NOW"}).json()
        was_killed = kill_at(instance, fork, step)
        await_status(instance, fork["service_id"], "READY")
        history = instance.rows("SELECT state FROM operation WHERE subject = ?", fork["service_id"])
        if was_killed and any(json.loads(state).get("kills") for (state,) in history):
            break
    else:
        pytest.fail(f"no server could be killed in {step}")
    assert rows_of(fork["endpoint"]["port"], fork["initial_password"]) == list(range(ROWS + 1))
