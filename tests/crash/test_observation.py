"""What a whole Ramet does about servers that crash, cannot start, lose their volume, or go down with the host."""

import json
import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from prove.journal import rows_of
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process.identity import find_server
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.mounts import mounted_at

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@dataclass(frozen=True)
class Shop:
    """A READY service with one row."""

    instance: Instance
    id: str
    port: int
    password: str

    def shown(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.instance.call("GET", f"/services/{self.id}").json()
        return answer

    def await_status(self, wanted: str) -> dict[str, Any]:
        """The service as it was when it had that status; it may have another soon."""
        looks: list[dict[str, Any]] = []

        def is_wanted() -> bool:
            looks.append(self.shown())
            return bool(looks[-1]["status"] == wanted)

        eventually(is_wanted, lambda: f"{wanted}: {looks[-1]}", 0.02)
        return looks[-1]

    def kill_server(self) -> None:
        pid = find_server(self.paths)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def optimizations(self) -> list[tuple[str, str]]:
        """Return the status and the state of each."""
        query = "SELECT status, state FROM operation WHERE procedure = 'optimize' AND subject = ?"
        return self.instance.rows(query, self.id)

    @property
    def paths(self) -> ServicePaths:
        return self.instance.backend.instances.paths(self.id)


@pytest.fixture
def shop(instance: Instance) -> Shop:
    answer = instance.call("POST", "/services", {"name": "shop"}).json()
    made = Shop(instance, answer["service_id"], answer["endpoint"]["port"], answer["initial_password"])
    made.await_status("READY")
    with connect(made.port, made.password) as connection:
        connection.execute("CREATE TABLE ledger AS SELECT 1::bigint AS n")
    return made


def test_a_crashed_server_is_unstable_with_its_reason_and_serves_again_at_once(shop: Shop) -> None:
    shop.kill_server()
    shown = shop.await_status("UNSTABLE")
    assert "is not running" in shown["metadata"]["status_reason"]
    shop.await_status("READY")
    assert rows_of(shop.port, shop.password) == [1]
    asked = shop.instance.rows("SELECT created_at FROM operation WHERE procedure = 'restart' AND subject = ?", shop.id)
    assert len(asked) == 1


def test_a_server_that_cannot_be_looked_at_for_want_of_descriptors_is_left_alone(shop: Shop) -> None:
    process = shop.instance.process
    assert process is not None
    server = find_server(shop.paths)
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    said = shop.instance.log_file.stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (0, hard))
    try:
        eventually(lambda: b"cannot be checked" in shop.instance.log_file.read_bytes()[said:], "a look")
        time.sleep(3)  # it is looked at each second; the log says so once a minute
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert shop.await_status("READY")["metadata"].get("status_reason") is None
    assert rows_of(shop.port, shop.password) == [1]
    assert find_server(shop.paths) == server
    assert shop.instance.steps("procedure = 'restart' AND subject = ?", shop.id) == []


def test_a_server_that_cannot_start_stays_unstable_with_the_last_lines_of_its_log(shop: Shop) -> None:
    spoiled = shop.paths.data / "postgresql.auto.conf"
    before = spoiled.read_text()
    spoiled.write_text("shared_buffers = 'far too much'\n")
    shop.kill_server()

    def says_why() -> bool:
        return "far too much" in shop.shown()["metadata"].get("status_reason", "")

    eventually(says_why, lambda: f"the log in {shop.shown()}")
    assert shop.shown()["status"] == "UNSTABLE"
    spoiled.write_text(before)
    shop.await_status("READY")
    assert rows_of(shop.port, shop.password) == [1]


def test_a_lost_volume_is_reported_and_not_made_again(shop: Shop) -> None:
    elsewhere = shop.paths.data.rename(shop.paths.root / "elsewhere")
    shop.kill_server()

    def says_so() -> bool:
        return "volume" in shop.shown()["metadata"].get("status_reason", "")

    eventually(says_so, lambda: f"the loss in {shop.shown()}")
    assert not shop.paths.data.exists()
    elsewhere.rename(shop.paths.data)
    shop.await_status("READY")
    assert rows_of(shop.port, shop.password) == [1]


@pytest.mark.root
def test_a_reboot_is_survived(shop: Shop) -> None:
    instance = shop.instance
    instance.kill()
    shop.kill_server()
    if instance.backend.pool.image is not None:
        eventually(lambda: _unmounted(instance), "the image is unmounted")
    instance.up()
    shop.await_status("READY")
    assert rows_of(shop.port, shop.password) == [1]


def test_an_optimization_goes_on_after_the_host_was_stopped(shop: Shop) -> None:
    with connect(shop.port, shop.password) as session:
        session.execute(
            "CREATE FUNCTION slow(n bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql"
            " AS $$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock_shared(1); RETURN n; END $$"
        )
        session.execute("CREATE INDEX ON ledger (slow(n))")
        session.execute("SELECT pg_advisory_lock(1)")
        session.commit()
        shop.instance.ask("POST", f"/services/{shop.id}/optimize")
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually(lambda: session.execute(waiting).fetchone() == (1,))
        shop.instance.down()
    shop.instance.up()
    shop.await_status("READY")
    assert rows_of(shop.port, shop.password) == [1]
    asked = shop.optimizations()
    assert [(status, json.loads(state)["statistics"]) for status, state in asked] == [("SUCCEEDED", "collected")]


_CRASHING = r"""
CREATE FUNCTION public.crash() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN COPY (SELECT 1) TO PROGRAM 'echo 1 >> crashes; kill -9 $PPID'; END $$;
CREATE FUNCTION public.crashing(n bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    PERFORM public.crash() FROM pg_catalog.pg_stat_activity
    WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND pg_catalog.starts_with(query, 'ANALYZE');
    RETURN n;
END $$;
CREATE INDEX ON public.ledger (public.crashing(n))
"""


def test_an_optimization_ends_where_a_table_crashes_the_server(shop: Shop) -> None:
    with connections.connect(shop.paths, "tsdb") as platform:
        platform.execute(_CRASHING)
    shop.instance.ask("POST", f"/services/{shop.id}/optimize")
    shop.await_status("READY")
    assert rows_of(shop.port, shop.password) == [1]
    asked = shop.optimizations()
    assert [status for status, _ in asked] == ["SUCCEEDED"]
    assert "except for tsdb.public.ledger: the server" in json.loads(asked[0][1])["statistics"]
    assert (shop.paths.data / "crashes").read_text().split() == ["1"]


def _unmounted(instance: Instance) -> bool:
    subprocess.run(["umount", str(instance.backend.pool.path)], check=False, capture_output=True)
    return mounted_at(instance.backend.pool.path) is None
