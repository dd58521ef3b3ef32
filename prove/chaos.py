"""The services of a crash proof: the requests that run while processes are killed, and what must hold afterwards."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from harness.instance import Instance, connect
from harness.waiting import eventually
from prove.followers import Followers
from prove.journal import Journal, rows_of
from prove.made import Made
from prove.replaced import Replaced
from prove.sleepers import Sleeper
from ramet.backends.local.process.identity import find_server
from ramet.ids import new_id
from ramet.model.life_span import LifeSpan
from ramet.model.procedures import ProcedureName
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.procedures.spec import submit
from ramet.procedures.state import DrillState
from ramet.store import services
from ramet.store.database import Store

EXPIRY = "expiry"  # a delete that nobody asks for
_SIZES = ((500, 2), (1000, 4), (1000, 2))


def steps_of_all(instance: Instance) -> list[tuple[str, str]]:
    """Return every step of every procedure."""
    store = Store.open(f"sqlite:///{instance.data}/ramet.db")
    try:
        tools = Tools(store, instance.backend, lambda: datetime.now(UTC))
        return [(one.name, step) for one in all_procedures(tools) for step in one.steps]
    finally:
        store.close()


@dataclass
class Workload:
    """A parent under load, a spare service to be changed, and forks and services made in passing."""

    instance: Instance
    passing: list[Made] = field(default_factory=list)
    parent: Made = field(init=False)
    spare: Made = field(init=False)
    journal: Journal = field(init=False)
    spare_journal: Journal = field(init=False)
    began: datetime = field(init=False)
    followers: Followers = field(init=False)
    replaced: Replaced = field(init=False)
    sleeper: Sleeper = field(init=False)

    def prepare(self) -> None:
        """Make the two services that stay, and let their clients write."""
        self.parent, self.spare = self.create("parent"), self.create("spare")
        self.passing.clear()
        for made in (self.parent, self.spare):
            self.await_status(made, "READY")
        self.journal = Journal(self.parent.port, self.parent.password)
        self.spare_journal = Journal(self.spare.port, self.spare.password)
        self.journal.start()
        self.spare_journal.start()
        eventually(lambda: len(self.journal.acknowledged) > 50, "the parent's client writes")
        self.began = datetime.now(UTC)
        # From here on the newest snapshot has the table too.
        self._ask("POST", f"/services/{self.parent.service_id}/snapshots", {"name": "first"})
        self.instance.await_idle()
        self.followers = Followers(self.instance, self.spare, self.spare_journal)
        fork = self.fork(random.Random(), "NOW")  # noqa: S311 - no secret
        self.sleeper = Sleeper(self.instance, self.create("sleeper"))
        self.passing.clear()
        for made in (fork, self.sleeper.made):
            self.await_status(made, "READY")
        self.replaced = Replaced(self.instance, fork, self.parent, self.journal)
        self.instance.await_idle()

    @property
    def known(self) -> dict[str, Callable[[random.Random], object]]:
        """What sets each procedure going."""
        return {
            "create": lambda _: self.create("new"),
            "fork": lambda chance: self.fork(chance, chance.choice(["NOW", "PITR", "LAST_SNAPSHOT"])),
            "aftercare": lambda chance: self.fork(chance, "NOW"),
            "snapshot": lambda _: self._ask("POST", f"/services/{self.parent.service_id}/snapshots", {"name": "s"}),
            "delete_snapshot": lambda _: self._delete_snapshot(),
            "stop": lambda _: self._ask("POST", f"/services/{self.spare.service_id}/stop"),
            "start": lambda _: self._resume(),
            "restart": lambda _: self._crash_spare(),
            "delete": lambda _: self._make_and_delete(expires=False),
            EXPIRY: lambda _: self._make_and_delete(expires=True),
            "restore": self.replaced.begin,
            "rebuild_replicas": self.replaced.begin_with_replica,
            "resize": self._resize,
            "sleep": lambda _: self.sleeper.fall_asleep(),
            "set_sleep": lambda _: self.sleeper.toggle(),
            "pooler": lambda _: self._toggle_pooler(),
            "optimize": lambda _: self._ask("POST", f"/services/{self.spare.service_id}/optimize"),
            "drill": lambda _: self._drill(),
            "create_replicas": lambda _: self.followers.create(),
            "resize_replicas": lambda _: self.followers.resize(),
            "restart_replicas": lambda _: self.followers.crash(),
            "delete_replicas": lambda _: self.followers.delete(),
            "replica_pooler": lambda _: self.followers.enable_pooler(),
        }

    def do(self, procedure: str, chance: random.Random) -> None:
        """Set a procedure going."""
        self.known[procedure](chance)

    def create(self, name: str) -> Made:
        """Ask for a service."""
        return self._noted(self._ask("POST", "/services", {"name": name}), "")

    def fork(self, chance: random.Random, strategy: str) -> Made:
        """Ask for a fork of the parent."""
        since, target = len(self.journal.acknowledged), None
        body: dict[str, object] = {"fork_strategy": strategy}
        if strategy == "PITR":
            target = max(self.began, datetime.now(UTC) - timedelta(seconds=chance.uniform(0.01, 8)))
            body["target_time"] = target.isoformat()
        eventually(lambda: self._status(self.parent) == "READY", "the parent is READY")
        made = self._noted(self._ask("POST", f"/services/{self.parent.service_id}/forkService", body), strategy)
        made.since, made.target = since if strategy == "NOW" else 0, target
        return made

    def delete(self, made: Made) -> None:
        """Ask for a service's end."""
        made.doomed = True
        self._ask("DELETE", f"/services/{made.service_id}")

    def mark(self) -> int:
        """Return what comes before all operations that follow."""
        return int(self.instance.rows("SELECT coalesce(max(rowid), 0) FROM operation")[0][0])

    def await_step(self, mark: int, procedure: str, step: str, seconds: float) -> bool:
        """Wait until an operation since `mark` is at a step; False when it was too fast to be seen there."""
        found: list[bool] = []

        def seen() -> bool:
            steps = self.instance.steps("rowid > ? AND procedure = ?", mark, procedure)
            if any(one.step == step and one.status == "RUNNING" for one in steps):
                found.append(True)
            return bool(found) or (bool(steps) and all(one.status in ("SUCCEEDED", "FAILED") for one in steps))

        eventually(seen, f"{procedure}.{step}", seconds=seconds)
        return bool(found)

    def await_undoing(self, mark: int, seconds: float) -> None:
        """Wait until an operation since `mark` is being undone, or is over."""
        deadline = time.monotonic() + seconds
        over = ("UNDOING", "FAILED", "SUCCEEDED")
        while time.monotonic() < deadline:
            if any(one.status in over for one in self.instance.steps("rowid > ? AND procedure = 'fork'", mark)):
                return

    def await_status(self, made: Made, wanted: str) -> None:
        """Wait for a status."""
        eventually(
            lambda: self._status(made) == wanted,
            lambda: f"{wanted}, not {self._status(made)}",
            0.03,
        )

    def pid_of(self, made: Made) -> int | None:
        """Return the pid of a service's server."""
        return find_server(self.instance.backend.instances.paths(made.service_id))

    def servers_answer(self) -> bool:
        """Tell whether the two services that stay are settled: one READY, one READY or PAUSED; and all forks.

        The status is what was last observed, so a server that was just killed is asked itself.
        """
        if self._status(self.parent) != "READY" or self._status(self.spare) not in ("READY", "PAUSED"):
            return False
        forks = [made for made in self.passing if made.strategy and not made.doomed]
        return _answers(self.parent) and all(map(self._is_settled, forks))

    def _is_settled(self, made: Made) -> bool:
        """Tell whether a fork that has become READY, and whose server may have been killed since, answers."""
        status = self._status(made)
        if status == "UNSTABLE":
            ((failure,),) = self.instance.rows("SELECT failure FROM service WHERE id = ?", made.service_id)
            return bool(failure)
        return status != "READY" or _answers(made)

    def faults(self, counts: Counter[str]) -> list[str]:
        """Return what does not hold of the services and their rows."""
        found = self.journal.faults(rows_of(self.parent.port, self.parent.password))
        if self._status(self.spare) == "PAUSED":
            self._ask("POST", f"/services/{self.spare.service_id}/start")
            self.await_status(self.spare, "READY")
        found += self.spare_journal.faults(rows_of(self.spare.port, self.spare.password))
        found += self.followers.faults(counts)
        found += self.replaced.faults(counts)
        found += self.sleeper.faults(counts)
        query = "SELECT drill_failure FROM service WHERE id = ? AND drill_failure IS NOT NULL"
        found += [f"drill: {failure}" for (failure,) in self.instance.rows(query, self.parent.service_id)]
        for made in self.passing:
            found += [f"{made.strategy or 'service'} {made.service_id}: {one}" for one in self._faults_of(made, counts)]
        return found

    def clean_up(self) -> None:
        """Delete what was made in passing."""
        for made in self.passing:
            if self.instance.call("GET", f"/services/{made.service_id}").status_code == 200:
                self._ask("DELETE", f"/services/{made.service_id}")
        for made in self.passing:
            self.await_status(made, "")
        self.followers.clean_up()
        self.replaced.clean_up()
        self.forget()

    def forget(self) -> None:
        """Look no more at what was made in passing."""
        self.passing.clear()
        self.followers.made.clear()
        self.sleeper.forget()
        self.replaced.forget()

    def final_faults(self) -> list[str]:
        """End the clients, and look at their rows once more."""
        self.journal.stop()
        self.spare_journal.stop()
        everything = len(self.journal.acknowledged)
        return self.journal.faults(rows_of(self.parent.port, self.parent.password), everything)

    def _faults_of(self, made: Made, counts: Counter[str]) -> list[str]:
        kind = "forks" if made.strategy else "services"
        status = self._status(made)
        if status == "READY" and not made.doomed:
            counts[f"{kind} READY"] += 1
            return self._wrong_rows(made) if made.strategy else []
        ((failure, deleted),) = self.instance.rows(
            "SELECT failure, deleted_at FROM service WHERE id = ?", made.service_id
        )
        if made.doomed and deleted:
            counts[f"{kind} {'expired' if made.expires else 'deleted'}"] += 1
            return [] if not made.expires or self._has_expired(made) else ["its history does not say that it expired"]
        if status in ("", "UNSTABLE") and failure:
            counts[f"{kind} gone with their reason"] += 1
            counts[f"reason: {failure.splitlines()[0][:100]}"] += 1
            return []
        return [f"it is {status or 'gone'}: {failure}"]

    def _wrong_rows(self, made: Made) -> list[str]:
        rows = rows_of(made.port, made.password)
        if made.target is None:
            return self.journal.faults(rows, made.since)
        with connect(self.parent.port, self.parent.password) as connection:
            query = "SELECT n FROM ledger WHERE pg_xact_commit_timestamp(xmin) <= %s"
            expected = {int(n) for (n,) in connection.execute(query, (made.target,)).fetchall()}
        wrong = expected ^ set(rows)
        return [f"{len(wrong)} transactions differ from those until {made.target}"] if wrong else []

    def _status(self, made: Made) -> str:
        answer = self.instance.call("GET", f"/services/{made.service_id}")
        return str(answer.json()["status"]) if answer.status_code == 200 else ""

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return self.instance.ask(method, path, body)

    def _noted(self, answer: Any, strategy: str) -> Made:
        made = Made(answer["service_id"], answer["endpoint"]["port"], answer["initial_password"], strategy)
        self.passing.append(made)
        return made

    def _resume(self) -> None:
        self._ask("POST", f"/services/{self.spare.service_id}/stop")
        self.await_status(self.spare, "PAUSED")
        self._ask("POST", f"/services/{self.spare.service_id}/start")

    def _crash_spare(self) -> None:
        pid = self.pid_of(self.spare)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def _make_and_delete(self, *, expires: bool) -> None:
        made = self.create("short-lived")
        self.await_status(made, "READY")
        if not expires:
            return self.delete(made)
        # As if a minute had been granted, and its end announced, long ago.
        past, made.doomed, made.expires = datetime.now(UTC) - timedelta(hours=1), True, True
        span = LifeSpan(expires_at=past, ttl_seconds=60, announced_at=past)
        with contextlib.closing(Store.open(f"sqlite:///{self.instance.data}/ramet.db")) as store, store.write() as tx:
            services.update_service(tx, made.service_id, life_span=services.life_span_column(span))
        return None

    def _has_expired(self, made: Made) -> bool:
        answer = self._ask("GET", f"/services/{made.service_id}/operations")
        return any("expired" in str(one.get("reason")) for one in answer["operations"])

    def _resize(self, chance: random.Random) -> None:
        cpu, memory = chance.choice(_SIZES)
        body = {"cpu_millis": str(cpu), "memory_gbs": str(memory)}
        self._ask("POST", f"/services/{self.spare.service_id}/resize", body)

    def _drill(self) -> None:
        """Do what only the schedule does otherwise, hours apart."""
        with contextlib.closing(Store.open(f"sqlite:///{self.instance.data}/ramet.db")) as store, store.write() as tx:
            submit(tx, ProcedureName.DRILL, self.parent.service_id, DrillState(drill_id=new_id()))

    def _toggle_pooler(self) -> None:
        now = self._ask("GET", f"/services/{self.spare.service_id}").get("connection_pooler")
        verb = "disablePooler" if now else "enablePooler"
        self._ask("POST", f"/services/{self.spare.service_id}/{verb}")

    def _delete_snapshot(self) -> None:
        path = f"/services/{self.parent.service_id}/snapshots"
        taken = self._ask("POST", path, {"name": "to be deleted"})["id"]
        mine = "SELECT 1 FROM snapshot WHERE id = ?"
        eventually(lambda: bool(self.instance.rows(mine, taken)), "the snapshot is there")
        self.instance.await_idle()
        self._ask("DELETE", f"{path}/{taken}")


def _answers(made: Made) -> bool:
    try:
        connect(made.port, made.password).close()
    except psycopg.OperationalError:
        return False
    return True
