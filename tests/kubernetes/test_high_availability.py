"""High availability in the cluster: the primary's pod is killed while a client commits, and nothing is lost."""

import threading
import time
from dataclasses import dataclass, field

import psycopg
import pytest

from harness.kubernetes.contents import kubectl
from harness.kubernetes.objects import get
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client
from ramet.model.fork import ForkStrategy
from tests.kubernetes.archived import COMMITTED
from tests.kubernetes.ramets import login, rows, running_in_cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@dataclass
class Writer:
    """A client that commits one number after the other, and connects again whenever it was cut off.

    A commit whose answer was lost may be there or not: the next number is tried then.
    """

    service: Service
    password: str
    acknowledged: list[int] = field(default_factory=list)
    begin_after: int = 0
    longest_gap: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Writer":
        with login(self.service, self.password) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS ledger (n bigint PRIMARY KEY)")
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        self.await_rows(50)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(120)

    def await_rows(self, count: int) -> None:
        """Wait until so many more rows were acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, "the writer's rows", seconds=180)

    def _write(self) -> None:
        number, last = self.begin_after, time.monotonic()
        while not self._ended.is_set():
            try:
                with login(self.service, self.password) as connection:
                    connection.autocommit = True
                    connection.execute("SET statement_timeout = '5s'")
                    while not self._ended.wait(0.01):
                        number += 1
                        connection.execute("INSERT INTO ledger VALUES (%s)", (number,))
                        self.acknowledged.append(number)
                        now = time.monotonic()
                        self.longest_gap, last = max(self.longest_gap, now - last), now
            except psycopg.Error:
                self._ended.wait(0.1)


def primary(name: str, at: str) -> str:
    """Return the instance that can be written to."""
    return str(get("cluster", name, at)["status"]["currentPrimary"])


def await_another(before: str, name: str, at: str) -> None:
    """Wait until another instance is the primary."""
    eventually(lambda: primary(name, at) != before, "another primary", 0.1)


def fork_across_failovers(client: Client, service: Service, password: str) -> None:
    """Fork the service as of a time just before its last row: WAL of three timelines leads there from its snapshot."""
    with login(service, password) as connection:
        committed = dict(connection.execute(COMMITTED).fetchall())
    target = committed[sorted(committed)[-10]]
    fork = client.fork_service(service.service_id, ForkStrategy.PITR, target_time=target.isoformat())
    assert fork.initial_password is not None
    found = rows(client.wait_ready(fork.service_id), fork.initial_password)
    assert found == [n for n, at in committed.items() if at <= target]
    client.delete_service(fork.service_id)
    client.wait_deleted(fork.service_id)


def test_nothing_that_was_acknowledged_is_lost_when_the_primary_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    with running_in_cluster(archive=True) as (ramet, namespace), ramet.client() as client:
        asked = client.create_service("ha")
        assert asked.initial_password is not None
        service, password = client.wait_ready(asked.service_id), asked.initial_password
        name = f"ramet-{service.service_id}"
        began = time.monotonic()
        client.set_ha(service.service_id, 1, 1)
        found = client.wait_ready(service.service_id)
        made = time.monotonic() - began
        assert (found.ha_replicas.replica_count, found.ha_replicas.sync_replica_count) == (1, 1)
        last = 0
        for _ in range(2):
            with Writer(service, password, begin_after=last) as writer:
                before = primary(name, namespace)
                kubectl("delete", "pod", before, f"--namespace={namespace}", "--force", "--grace-period=0")
                await_another(before, name, namespace)
                writer.await_rows(50)
            there = {n for n in rows(service, password) if n > last}
            lost = [n for n in writer.acknowledged if n not in there]
            with capsys.disabled():
                print(
                    f"\nstandby made in {made:.1f} s; {len(writer.acknowledged)} acknowledged, {len(lost)} lost,"
                    f" {len(there) - len(writer.acknowledged)} more are there; no answer for {writer.longest_gap:.1f} s"
                )
            assert lost == []
            last = max(there)
            eventually(lambda: get("cluster", name, namespace)["status"].get("readyInstances") == 2, "both", 0.2)
        client.wait_ready(service.service_id)
        fork_across_failovers(client, service, password)
        with Writer(service, password, begin_after=last) as writer:
            client.resize_service(service.service_id, "500", "1")
            client.wait_ready(service.service_id)
            writer.await_rows(50)
        with capsys.disabled():
            print(f"resized under a writer: no answer for {writer.longest_gap:.1f} s")
        assert set(writer.acknowledged) <= set(rows(service, password))
        client.set_ha(service.service_id, 0)
        client.wait_ready(service.service_id)
        assert len(kubectl("get", "pvc", f"--namespace={namespace}", "--output=name").split()) == 1
        client.delete_service(service.service_id)
        client.wait_deleted(service.service_id)
        assert kubectl("get", "pvc", f"--namespace={namespace}", "--output=name").split() == []
