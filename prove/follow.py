"""Forks of a service that follows a server outside of Ramet, under load, judged row by row.

Meanwhile the source is killed, restarted in order, away, and replaced by a promoted standby, which is on another
timeline. NOW: the fork has every row that the standby showed before the request, no hole, and nothing that the source
never had. PITR: exactly the transactions whose commit time, by the source, is not after the target.
At the end the service takes over: no row is lost, and the time is measured in which no write was answered.
"""

import argparse
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg

from harness.waiting import eventually
from prove.ground import Ground, Running, open_ground
from prove.oracle import all_transactions, compare, ledger_rows, sums_agree, transactions_until
from prove.outside import ADMIN, DATABASE, READER, Outside, open_outside
from prove.pitr import behind_the_border
from prove.results import Results, Trial
from ramet.control.duties.health import Health
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.errors import Error
from ramet.followers.observation import Observing
from ramet.followers.verbs import FollowRequest, follow_service, promote_service
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.timestamps import rfc3339
from ramet.operations.schedule import Duty, Schedule
from ramet.procedures.servers import server_of

_KINDS = (
    "now", "pitr", "killed, now", "pitr across that", "now", "restarted, pitr", "away, now", "pitr", "promoted, now",
    "pitr",
)  # fmt: skip
_WARM_UP_SECONDS = 5.0
_REFUSALS = frozenset({"OUTSIDE_RESTORE_WINDOW", "WAL_MISSING", "WAL_DAMAGED", "NOT_RECEIVED"})


@dataclass
class Traffic:
    """pgbench and a ledger on the source; both go on after it was away."""

    outside: Outside
    rate: int
    acknowledged: int = 0
    acknowledged_at: float = 0.0
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _stopping: threading.Event = field(default_factory=threading.Event)

    def append(self) -> None:
        """Append rows to the ledger, one transaction each, until `stop`."""
        while not self._stopping.is_set():
            try:
                with self.outside.connect() as connection:
                    self._append_with(connection)
            except psycopg.Error:
                self._stopping.wait(0.2)

    def _append_with(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self._stopping.wait(0.005):
            # A row whose acknowledgement was lost is there already.
            query = "INSERT INTO ledger VALUES (%s, clock_timestamp()) ON CONFLICT DO NOTHING"
            connection.execute(query, (self.acknowledged + 1,))
            self.acknowledged += 1
            self.acknowledged_at = time.monotonic()

    def bench(self) -> None:
        """Run pgbench again and again until `stop`."""
        command = [self.outside.installation.program("pgbench"), "-h", "localhost", "-p", str(self.outside.port)]
        command += ["-U", ADMIN, "-n", "-c", "2", "-T", "86400", "-R", str(self.rate), DATABASE]
        environment = {"PATH": os.environ.get("PATH", ""), "PGPASSWORD": self.outside.password}
        while not self._stopping.is_set():
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as running:
                while running.poll() is None and not self._stopping.wait(0.1):
                    pass
                running.terminate()
            self._stopping.wait(0.2)

    def stop(self) -> None:
        """Let both end."""
        self._stopping.set()


@contextlib.contextmanager
def _traffic(outside: Outside, scale: int, rate: int) -> Iterator[Traffic]:
    environment = {"PATH": os.environ.get("PATH", ""), "PGPASSWORD": outside.password}
    command = [outside.installation.program("pgbench"), "-h", "localhost", "-p", str(outside.port), "-U", ADMIN]
    subprocess.run([*command, "-i", "-q", "-s", str(scale), DATABASE], env=environment, check=True, capture_output=True)
    with outside.connect() as connection:
        connection.execute("CREATE TABLE ledger (n bigint PRIMARY KEY, at timestamptz)")
    made = Traffic(outside, rate)
    threads = [threading.Thread(target=each) for each in (made.append, made.bench)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.stop()
        for thread in threads:
            thread.join(60)


@dataclass(frozen=True)
class Proof:
    """The parts of the proof."""

    ground: Ground
    outside: Outside
    follower: Running
    traffic: Traffic
    choose: random.Random

    def trial(self, kind: str) -> Trial:
        """Do what the kind says to the source, and judge a fork."""
        act, _, wanted = kind.rpartition(", ")
        if act == "killed":
            self.outside.end(signal.SIGQUIT)
            self.outside.start()
        elif act == "restarted":
            self.outside.end(signal.SIGINT)
            self.outside.start()
        elif act == "promoted":
            self.outside.fail_over()
        elif act == "away":
            self.outside.end(signal.SIGQUIT)
        try:
            return self._now(kind, is_away=act == "away") if wanted == "now" else self._pitr(kind)
        finally:
            if self.outside.process is None:
                self.outside.start()

    def _now(self, kind: str, *, is_away: bool) -> Trial:
        shown = self._shown()
        fork = self.ground.fork(self.follower, ForkRequest(ForkStrategy.NOW))
        rows = set(ledger_rows(fork))
        missing = set(range(1, max([shown, *rows]) + 1)) - rows
        faults = [] if sums_agree(fork) else ["pgbench's sums differ"]
        found = all_transactions(fork)
        if is_away:
            self.outside.start()
        if not found <= all_transactions(self.outside):
            faults.append("the fork holds transactions that the source never had")
        self.ground.delete(fork)
        return Trial(f"{kind}: {shown} shown", fork.seconds, len(missing), 0, tuple(faults))

    def _pitr(self, kind: str) -> Trial:
        since = self.traffic.began_at
        target = since + self.choose.random() * (datetime.now(UTC) - since)
        try:
            fork = self.ground.fork(self.follower, ForkRequest(ForkStrategy.PITR, target_time=rfc3339(target)))
        except Error as refused:
            if refused.code not in _REFUSALS:
                raise
            return Trial(f"{kind}: refused, {refused.code}", 0.0, 0)
        difference = compare(transactions_until(self.outside, target), all_transactions(fork))
        inverted = difference.missing & behind_the_border(self.ground, fork)
        faults = [] if sums_agree(fork) else ["pgbench's sums differ"]
        self.ground.delete(fork)
        return Trial(kind, fork.seconds, difference.count - len(inverted), len(inverted), tuple(faults))

    def move(self) -> Trial:
        """Promote the follower while the source is stopped in order, and write to it as soon as that is possible."""
        service = self.follower.service
        eventually(self._follows, "the follower follows again")
        promote_service(self.ground.plane, self.ground.project_id, service.id, lsn=None, drain=True, neutralize=False)
        self.outside.end(signal.SIGINT)
        eventually(self._is_written_to, "a write to the service", 0.01)
        seconds = time.monotonic() - self.traffic.acknowledged_at
        lost = set(range(1, self.traffic.acknowledged + 1)) - set(ledger_rows(self.follower))
        faults = () if sums_agree(self.follower) else ("pgbench's sums differ",)
        return Trial(f"moved: {self.traffic.acknowledged} acknowledged", seconds, len(lost), 0, faults)

    def _follows(self) -> bool:
        seen = self.ground.backend.followers.observe(server_of(self.ground.look(self.follower)))
        return seen is not None and seen.problem is None

    def _is_written_to(self) -> bool:
        with contextlib.suppress(psycopg.Error), self.follower.connect() as connection:
            connection.execute("INSERT INTO ledger VALUES (0, clock_timestamp())")
            return True
        return False

    def _shown(self) -> int:
        """Return the last row of the ledger that the standby shows."""
        with psycopg.connect(
            host="localhost", port=self.follower.service.port, user=READER, password=self.outside.password,
            dbname=DATABASE, connect_timeout=10,
        ) as connection:  # fmt: skip
            row = connection.execute("SELECT coalesce(max(n), 0) FROM ledger").fetchone()
        return 0 if row is None else int(row[0])


def main(words: list[str]) -> int:
    """Run the proof; 0 when no trial failed."""
    arguments = _parser().parse_args(words)
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    results = Results("follow", seed)
    print(f"follow: {arguments.trials} trials, seed {seed}", file=sys.stderr)
    with open_ground(arguments.data, arguments.snapshot_seconds) as ground:
        installation = ground.backend.instances.installations.default
        duties = [
            Duty("followers", 1.0, Observing(ground.plane).observe_standbys),
            Duty("health", 1.0, Health(ground.plane).inspect),
        ]
        schedule = Schedule(ground.store, duties)
        with open_outside(installation) as outside, _traffic(outside, arguments.scale, arguments.rate) as traffic:
            follower = _follow(ground, outside)
            schedule.start()
            time.sleep(_WARM_UP_SECONDS)
            traffic.began_at = datetime.now(UTC)
            proof = Proof(ground, outside, follower, traffic, random.Random(seed))  # noqa: S311 - to be run again
            try:
                for kind in itertools.islice(itertools.cycle(_KINDS), arguments.trials):
                    results.run(kind, partial(proof.trial, kind))
                results.run("moved", proof.move)
            finally:
                schedule.stop()
                refused = sum("refused" in trial.name for trial in results.trials)
                print(f"{results.summary()}\nrefused, with the reason: {refused}", flush=True)
    return 1 if any(trial.failed for trial in results.trials) else 0


def _follow(ground: Ground, outside: Outside) -> Running:
    request = FollowRequest(CreateRequest("follower"), outside.url, Secret(outside.password))
    return ground.accepted(follow_service(ground.plane, ground.project_id, request))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove follow", description=__doc__)
    parser.add_argument("--trials", type=int, default=50, help="how many forks (50)")
    parser.add_argument("--seed", type=int, help="the same seed chooses the same times again")
    parser.add_argument("--scale", type=int, default=2, help="pgbench's scale, 15 MB each (2)")
    parser.add_argument("--rate", type=int, default=150, help="transactions a second (150)")
    parser.add_argument("--snapshot-seconds", type=float, default=20.0, help="a snapshot of the standby so often (20)")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser
