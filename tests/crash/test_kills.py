"""A fork's server is killed while it recovers: recovery goes on from the untouched capture, and the fork is exact."""

import os
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from prove.journal import rows_of
from prove.site import Site, connect, eventually
from ramet.backends.local import processes
from ramet.backends.local.paths import ServicePaths
from ramet.backends.local.process_identity import children_of, find_server
from ramet.procedures.servers import MOST_KILLS

pytestmark = [pytest.mark.crash, pytest.mark.slow]
PATIENCE_SECONDS = 90.0
ROWS = 200_000


def await_status(site: Site, service_id: str, wanted: str) -> None:
    def shown() -> Any:
        return site.call("GET", f"/services/{service_id}").json()

    eventually(lambda: shown().get("status") == wanted, PATIENCE_SECONDS, lambda: f"{wanted}: {shown()}", 0.02)


def startup_of(pid: int) -> int | None:
    return next((child for child, title in children_of(pid) if "startup" in title), None)


def kill_while_starting(site: Site, paths: ServicePaths, victim: str) -> None:
    """Kill the next server of the fork, or the process of it that replays, before it is ready."""

    def killed() -> bool:
        pid = find_server(paths)
        if pid is None or processes.is_ready(paths):
            return False
        target = pid if victim == "server" else startup_of(pid)
        if target is None:
            return False
        os.kill(target, signal.SIGKILL)
        return True

    eventually(killed, PATIENCE_SECONDS, "a server that starts", 0.0005)
    eventually(lambda: find_server(paths) is None, PATIENCE_SECONDS, "its end", 0.0005)


def make_shop(site: Site) -> tuple[str, datetime]:
    """Return a service whose last snapshot has hardly a row, and a moment at which it has many."""
    shop = site.call("POST", "/services", {"name": "shop"}).json()
    await_status(site, shop["service_id"], "READY")
    with connect(shop["endpoint"]["port"], shop["initial_password"]) as connection:
        connection.execute("CREATE TABLE ledger (n bigint)")
        connection.execute("INSERT INTO ledger SELECT generate_series(1, %s)", (ROWS,))
        moment = datetime.now(UTC)
        connection.execute("INSERT INTO ledger VALUES (0)")
    return shop["service_id"], moment


@pytest.mark.parametrize("strategy", ["NOW", "PITR"])
@pytest.mark.parametrize("victim", ["server", "startup process"])
def test_a_fork_whose_server_is_killed_goes_on(site: Site, strategy: str, victim: str) -> None:
    parent, moment = make_shop(site)
    target = {"target_time": moment.isoformat()} if strategy == "PITR" else {}
    fork = site.call("POST", f"/services/{parent}/forkService", {"fork_strategy": strategy, **target}).json()
    paths = site.backend.servers.paths(fork["service_id"])
    for _ in range(2):
        kill_while_starting(site, paths, victim)
    await_status(site, fork["service_id"], "READY")
    held = rows_of(fork["endpoint"]["port"], fork["initial_password"])
    assert held == list(range(0 if strategy == "NOW" else 1, ROWS + 1))


def test_a_fork_whose_server_is_killed_each_time_fails_with_its_reason(site: Site) -> None:
    parent, _ = make_shop(site)
    fork = site.call("POST", f"/services/{parent}/forkService", {"fork_strategy": "NOW"}).json()
    paths = site.backend.servers.paths(fork["service_id"])
    for _ in range(MOST_KILLS + 1):
        kill_while_starting(site, paths, "server")
    query = "SELECT failure FROM service WHERE id = ? AND failed_at IS NOT NULL"
    eventually(lambda: bool(site.rows(query, fork["service_id"])), PATIENCE_SECONDS, "the fork's end")
    ((failure,),) = site.rows(query, fork["service_id"])
    assert "was killed while starting" in failure
    assert site.call("GET", f"/services/{parent}").json()["status"] == "READY"
