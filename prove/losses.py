"""The trials of the archive's proof: a machine is lost in some way, and its services are recovered and compared."""

import json
import random
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import httpx
from msgspec.structs import replace

from bench.report import percentile
from harness.faulty_store import FaultyStore
from harness.instance import FREQUENT_SNAPSHOTS
from harness.object_stores import ObjectStore
from harness.waiting import eventually
from prove.acknowledged import rows_of
from prove.machine import Busy, Machine
from prove.oracle import Database, all_transactions, compare, sums_agree, transactions_until
from prove.restoring import recover, restored_by_barman
from prove.results import FAULTS, Trial
from ramet.backends.local.off_host.progress import BaseProgress, read_progress, write_progress

_LONGEST_UPLOAD_SECONDS = 1.0
KINDS = ("random time", "to a moment", "base upload", "fork", "recovery killed", "at once", "Barman")
_MACHINES_IN_A_ROW = 10
_SCALES = (1, 1, 1, 10)
_LONGEST_LOAD_SECONDS = 10.0
_LONGEST_RECOVERY_SECONDS = 8.0
_OLD = timedelta(days=8)


@dataclass(frozen=True)
class Moment:
    """A time that one recovery stops at, and the transactions of each service until then, as it said itself."""

    target: datetime
    transactions: dict[str, frozenset[int]]


@dataclass
class Proof:
    """The object store, the proxy before it, the machine that is lost next, and what was measured."""

    store: ObjectStore
    proxy: FaultyStore
    root: Path
    chance: random.Random
    rate: int
    counts: Counter[str] = field(default_factory=Counter)
    lost_seconds: list[float] = field(default_factory=list)
    announced_seconds: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    _machine: Machine | None = None
    _installations: int = 0
    _age: int = 0

    def trial(self, kind: str) -> Trial:
        """Lose the machine in one way, recover it, and compare; a failure ends the row of machines."""
        try:
            return self._trial(kind)
        except (*FAULTS, httpx.HTTPError, subprocess.SubprocessError) as fault:
            self.end()
            raise AssertionError(f"{type(fault).__name__}: {fault}") from fault

    def _trial(self, kind: str) -> Trial:
        machine = self._next_machine()
        machine.begin(self.rate)
        if kind != "at once" or self._age == 1:
            machine.await_promises()
        time.sleep(self.chance.uniform(0, _LONGEST_LOAD_SECONDS))
        if kind == "base upload":
            self._await_upload(machine)
        if kind == "fork":
            machine.fork(machine.services[0])
        moment = self._moment(machine) if kind == "to a moment" else None
        lost_at = machine.lose()
        self.lags += machine.lags
        faults = self._barman_faults(machine) if kind == "Barman" else []
        begun = time.monotonic()
        kill_seconds = self.chance.uniform(0.5, _LONGEST_RECOVERY_SECONDS) if kind == "recovery killed" else None
        self._machine = recovered = recover(machine, moment.target if moment else None, kill_seconds)
        seconds = time.monotonic() - begun
        self.counts["recoveries that were killed"] += recovered.was_interrupted
        error, more = self._compare(machine, recovered, moment, lost_at)
        if error or faults or more:
            self.end()
        return Trial(kind, seconds, error, 0, (*faults, *more))

    def end(self) -> None:
        """Remove the machine that would be lost next."""
        machine, self._machine, self._age = self._machine, None, 0
        if machine is not None:
            machine.lose()

    def _next_machine(self) -> Machine:
        """Return the recovered machine, or one with a new installation and a separate archive in the bucket."""
        if self._age >= _MACHINES_IN_A_ROW:
            self.end()
        self._age += 1
        if self._machine is None:
            self._machine = self._install()
        return self._machine

    def _install(self) -> Machine:
        self._installations += 1
        variables = {
            "RAMET_ARCHIVE_URL": f"{self.store.url}/installation-{self._installations}",
            **FREQUENT_SNAPSHOTS,
            **self.store.environment(self.proxy.url),
        }
        self._machine = machine = Machine(self.root, variables)
        machine.install()
        machine.create("shop", self.chance.choice(_SCALES))
        machine.create("notes")
        return machine

    def _await_upload(self, machine: Machine) -> None:
        """Let a base backup become due, and wait until its upload has begun."""
        busy = machine.services[0]
        paths = machine.instance.backend.instances.paths(busy.service_id)
        machine.snapshot(busy)
        newest = read_progress(paths, BaseProgress).newest
        if newest is None:
            raise AssertionError("a time is announced as archived, and there is no base backup")
        write_progress(paths, BaseProgress(newest=replace(newest, taken_at=newest.taken_at - _OLD)))
        eventually((paths.root / "upload").exists, "the upload of another base backup", 0.01)
        time.sleep(self.chance.uniform(0, _LONGEST_UPLOAD_SECONDS))
        self.counts["lost while a base backup was uploaded"] += (paths.root / "upload").exists()

    def _moment(self, machine: Machine) -> Moment:
        """Choose a time since the load began that is announced as archived, and ask the services what it holds."""
        latest = min(busy.promised or machine.began_at for busy in machine.services)
        target = machine.began_at + self.chance.random() * max(timedelta(0), latest - machine.began_at)
        return Moment(
            target, {busy.service_id: transactions_until(busy, target, busy.tables) for busy in machine.services}
        )

    def _barman_faults(self, machine: Machine) -> list[str]:
        """Restore one service by Barman's programs as well; it must hold the same."""
        busy, prefix = machine.services[-1], f"installation-{self._installations}"
        with restored_by_barman(self.store, prefix, busy, self.root) as server:
            return [f"by Barman: {fault}" for fault in self._faults(busy, server, busy.promised)]

    def _faults(self, busy: Busy, database: Database, promised: datetime | None) -> list[str]:
        with database.connect() as connection:
            rows = rows_of(connection)
        self.counts["rows compared"] += len(rows)
        found = busy.noted().faults(rows, busy.kept, promised)
        if busy.scale and not sums_agree(database):
            found.append("pgbench's sums differ")
        return [f"{busy.name}: {one}" for one in found]

    def _compare(
        self, lost: Machine, recovered: Machine, moment: Moment | None, lost_at: datetime
    ) -> tuple[int, list[str]]:
        """Return the error in transactions of a recovery to a time, and what else is wrong with the services."""
        error, faults = 0, recovered.instance.leftovers()
        after = {busy.service_id: busy for busy in recovered.services}
        for busy in lost.services:
            found = after.get(busy.service_id)
            if found is None:
                faults += [f"{busy.name} is not there again"] if busy.promised else []
            elif moment is not None:
                faults += self._faults(busy, found, moment.target)
                error += self._error(busy, found, moment, recovered)
            else:
                faults += self._faults(busy, found, busy.promised)
                self._measure(busy, found, lost_at)
        return error, faults

    def _error(self, busy: Busy, found: Busy, moment: Moment, recovered: Machine) -> int:
        """Return how many transactions are too many or too few, without those that clocks and WAL disagree about."""
        difference = compare(moment.transactions[busy.service_id], all_transactions(found, busy.tables))
        rows = recovered.instance.rows("SELECT report FROM service WHERE id = ?", busy.service_id)
        report = json.loads(rows[0][0] or "{}")
        behind = frozenset(report.get("capture", {}).get("cut", {}).get("behind_with_earlier_time", []))
        self.counts["transactions compared"] += len(moment.transactions[busy.service_id])
        return difference.count - len(difference.missing & behind)

    def _measure(self, busy: Busy, found: Busy, lost_at: datetime) -> None:
        if busy.promised is not None:
            self.announced_seconds.append((lost_at - busy.promised).total_seconds())
            self.lost_seconds.append(busy.noted().lost_seconds(found.kept, lost_at))

    def figures(self) -> str:
        """Return what was counted and measured."""
        lines = [f"{name}: {count}" for name, count in sorted(self.counts.items())]
        lines.append(
            "faults in the store: " + ", ".join(f"{name} {n}" for name, n in sorted(self.proxy.injected.items()))
        )
        for name, values in (
            ("seconds of confirmed commits lost", self.lost_seconds),
            ("lag announced at the loss", self.announced_seconds),
            ("lag announced under load", self.lags),
        ):
            if values:
                middle, high = percentile(values, 0.5), percentile(values, 0.99)
                lines.append(f"{name}: p50 {middle:.1f} s, p99 {high:.1f} s, max {max(values):.1f} s ({len(values)})")
        return "\n".join(lines)
