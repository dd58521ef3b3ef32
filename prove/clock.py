"""Step the clock under forks, snapshots and a ledger, and judge each fork row by row.

The clock of the control plane is stepped by an hour and back, or that of the control plane and of its servers. NOW must
hold all acknowledged rows, LAST_SNAPSHOT those of the snapshot that was taken last, and PITR what was committed when
the clock showed the target, or be refused with an error that says that the clock went back.
"""

import argparse
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.instance import FREQUENT_SNAPSHOTS, Instance, connect, open_instance
from harness.waiting import eventually
from prove.faketime import WITH_SERVERS, Faketime, library, sweep
from prove.journal import Journal, rows_of
from prove.made import FAULTS, Made
from ramet.backends.local.process.identity import find_server
from ramet.model.timestamps import rfc3339

HOUR_SECONDS = 3600.0
_SOME_ROWS = 40
_STEADY = timedelta(minutes=1)


@dataclass(frozen=True)
class Plan:
    """One trial: how far the clock is stepped, and whether the servers have that clock too."""

    seconds: float
    with_servers: bool

    @property
    def title(self) -> str:
        """Return it in words."""
        whose = "control plane and servers" if self.with_servers else "control plane"
        return f"{whose} {self.seconds:+.0f} s and back"


PLANS = [Plan(sign * HOUR_SECONDS, with_servers) for with_servers in (False, True) for sign in (1, -1)]


@dataclass
class Trial:
    """A service whose ledger is written while the clock is stepped. `refused` counts PITR forks that were refused."""

    instance: Instance
    clock: Faketime
    plan: Plan
    parent: Made = field(init=False)
    journal: Journal = field(init=False)
    forks: int = 0
    refused: int = 0

    def run(self) -> list[str]:
        """Step there and back; return what does not hold."""
        self.parent = self._made(self.instance.ask("POST", "/services", {"name": "clock"}))
        self._await_ready(self.parent)
        self.journal = Journal(self.parent.port, self.parent.password)
        self.journal.start()
        try:
            faults = [fault for seconds in (self.plan.seconds, 0.0) for fault in self._leg(seconds)]
        finally:
            self.journal.stop()
        return [f"{self.plan.title}: {fault}" for fault in faults]

    def _leg(self, seconds: float) -> list[str]:
        """Write, step the clock, and write again; then kill the server and make each kind of fork."""
        self._await_rows()
        self._snapshot()
        self._await_rows()
        before, known = self._last_time(), self._snapshot_ids()
        self._await_rows()
        self.clock.step_to(seconds)
        self._await_rows()
        self._kill_server()
        self._await_rows()
        checks: dict[str, Callable[[], list[str]]] = {
            "NOW": self._now,
            "LAST_SNAPSHOT": self._last_snapshot,
            "PITR to before the step": lambda: self._pitr(before),
            "PITR to after the step": lambda: self._pitr(self._time_after_some_rows()),
            "retention": lambda: [f"snapshot {one} was retired" for one in known - self._snapshot_ids()],
        }
        at = f"with the clock at {seconds:+.0f} s"
        return [f"{at}, {name}: {fault}" for name, check in checks.items() for fault in _tried(check)]

    def _now(self) -> list[str]:
        since = len(self.journal.acknowledged)
        with self._forked({"fork_strategy": "NOW"}) as fork:
            return self.journal.faults(self._rows(fork), since)

    def _last_snapshot(self) -> list[str]:
        since = len(self.journal.acknowledged)
        self._snapshot()
        self._await_rows()
        with self._forked({"fork_strategy": "LAST_SNAPSHOT"}) as fork:
            return self.journal.faults(self._rows(fork), since)

    def _pitr(self, target: datetime) -> list[str]:
        try:
            with self._forked({"fork_strategy": "PITR", "target_time": rfc3339(target)}) as fork:
                held = self._rows(fork)
        except AssertionError as refusal:
            self.refused += 1
            if "clock" in str(refusal) or "TARGET_TIME_IN_FUTURE" in str(refusal):
                return []
            raise
        committed = self._committed()
        possible = {count: [number for number, _ in committed[:count]] for count in counts_at(committed, target)}
        if held in possible.values():
            return []
        return [f"{rfc3339(target)} holds {len(held)} rows up to {held[-1:]}, not {sorted(possible)}"]

    @contextmanager
    def _forked(self, request: dict[str, str]) -> Iterator[Made]:
        fork = self._made(self.instance.ask("POST", f"/services/{self.parent.service_id}/forkService", request))
        self.forks += 1
        self._await_ready(fork)
        yield fork
        self.instance.ask("DELETE", f"/services/{fork.service_id}")

    def _await_ready(self, made: Made) -> None:
        def is_decided() -> bool:
            found = self.instance.ask("GET", f"/services/{made.service_id}")
            if found["status"] == "UNSTABLE":
                raise AssertionError(f"it failed: {found['metadata'].get('status_reason')}")
            return bool(found["status"] == "READY")

        eventually(is_decided, f"service {made.service_id} is READY", 0.02)

    def _snapshot(self) -> None:
        path = f"/services/{self.parent.service_id}/snapshots"
        asked = self.instance.ask("POST", path)["id"]
        eventually(lambda: asked in self._snapshot_ids(), f"snapshot {asked}", 0.02)

    def _snapshot_ids(self) -> set[str]:
        query = "SELECT id FROM snapshot WHERE service_id = ?"
        return {row[0] for row in self.instance.rows(query, self.parent.service_id)}

    def _kill_server(self) -> None:
        pid = find_server(self.instance.backend.instances.paths(self.parent.service_id))
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def _await_rows(self) -> None:
        wanted = len(self.journal.acknowledged) + _SOME_ROWS
        eventually(lambda: len(self.journal.acknowledged) >= wanted, "more rows", 0.01)

    def _time_after_some_rows(self) -> datetime:
        target = self._last_time()
        self._await_rows()
        return target

    def _last_time(self) -> datetime:
        return self._committed()[-1][1]

    def _committed(self) -> list[tuple[int, datetime]]:
        """Return the rows of the parent, in the order of their commits, with the times of these."""
        query = "SELECT n, pg_xact_commit_timestamp(xmin) FROM ledger ORDER BY n"
        with connect(self.parent.port, self.parent.password) as connection:
            return [(int(n), at.astimezone(UTC)) for n, at in connection.execute(query).fetchall()]

    @staticmethod
    def _rows(made: Made) -> list[int]:
        return rows_of(made.port, made.password)

    @staticmethod
    def _made(answer: dict[str, object]) -> Made:
        endpoint = answer["endpoint"]
        if not isinstance(endpoint, dict):
            raise AssertionError(f"no endpoint: {answer}")
        return Made(str(answer["service_id"]), int(endpoint["port"]), str(answer["initial_password"]))


def counts_at(committed: Sequence[tuple[int, datetime]], target: datetime) -> set[int]:
    """Return how many of the commits, given in their order, there may have been when the clock showed a time.

    A clock that went back showed it more than once. One that jumped over it never did: then it is where it jumped.
    """
    steady: set[int] = set()
    jumps: set[int] = set()
    for count in range(len(committed) + 1):
        before = committed[count - 1][1] if count else None
        after = committed[count][1] if count < len(committed) else None
        if (before is None or before <= target) and (after is None or target < after):
            is_jump = before is not None and after is not None and after - before > _STEADY
            (jumps if is_jump else steady).add(count)
    return steady or jumps


def prove(plan: Plan, directory: Path | None = None) -> tuple[list[str], str]:
    """Run one trial over a fresh data directory; return its faults, and what was done."""
    with _clocked(plan, directory) as (instance, clock):
        trial = Trial(instance, clock, plan)
        faults = trial.run()
        return faults, f"{trial.forks} forks, {trial.refused} refused"


@contextmanager
def _clocked(plan: Plan, directory: Path | None) -> Iterator[tuple[Instance, Faketime]]:
    with open_instance(directory, **FREQUENT_SNAPSHOTS) as instance:
        _give_clock(plan, instance)
        instance.up()
        pid = None if instance.process is None else instance.process.pid
        try:
            yield instance, _clock_of(instance)
        finally:
            sweep(pid)


def _clock_of(instance: Instance) -> Faketime:
    return Faketime(instance.root / "faketime")


def _give_clock(plan: Plan, instance: Instance) -> None:
    clock = _clock_of(instance)
    clock.step_to(0)
    instance.program = (sys.executable, "-m", "prove.faketime")
    instance.environment |= clock.environment
    if plan.with_servers:
        instance.environment[WITH_SERVERS] = "1"


def _tried(check: Callable[[], list[str]]) -> list[str]:
    try:
        return check()
    except FAULTS as fault:
        return [f"{type(fault).__name__}: {fault}"]


def main(arguments: list[str]) -> int:
    """Run the proof; 0 when every fork is what it should be."""
    given = _parser().parse_args(arguments)
    if library() is None:
        print("clock: libfaketime is missing: install the package faketime", file=sys.stderr)
        return 1
    plans = random.sample(PLANS, len(PLANS))
    found: list[str] = []
    for number in range(given.trials):
        plan = plans[number % len(plans)]
        try:
            faults, done = prove(plan, given.data)
        except FAULTS as fault:
            faults, done = [f"{plan.title}: {type(fault).__name__}: {fault}"], "ended early"
        found += faults
        print(
            f"clock {number + 1:4d} {plan.title:<45} {done}  {'; '.join(faults) or 'ok'}", file=sys.stderr, flush=True
        )
    print(f"clock: {given.trials} trials, {len(found)} faults", *found, sep="\n", flush=True)
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove clock", description=__doc__)
    parser.add_argument("--trials", type=int, default=len(PLANS), help=f"how many ({len(PLANS)}: each kind once)")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser
