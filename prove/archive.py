"""Lose the machine at random times under load, restore its services from the object store, and compare every row.

Everything that was confirmed to a client before the last `archived_until` that Ramet announced must be there, nothing
that was never sent, and the rows must be a prefix of the order of commits. The object store is a real S3 server, behind
a proxy that answers some requests with 503, resets or truncated answers, or late.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from harness.faulty_store import Faults, FaultyStore, faulty_store
from harness.instance import FREQUENT_SNAPSHOTS, Instance
from harness.object_stores import STORES, ObjectStore, object_store
from harness.waiting import eventually
from prove.acknowledged import rows_of
from prove.machine import Busy, Machine
from prove.oracle import Database, sums_agree
from prove.restoring import restored_by_barman
from prove.results import Results, Trial

_FAULTS = Faults(slow_down=0.04, reset_request=0.02, reset_answer=0.02, truncated=0.02, delay=0.1)
_LONGEST_LOAD_SECONDS = 12.0


@dataclass
class Loss:
    """What a lost machine leaves behind: what its clients know."""

    machine: Machine
    lost_at: datetime

    def faults(self, busy: Busy, database: Database) -> list[str]:
        """Say what is wrong with a restored service."""
        with database.connect() as connection:
            rows = rows_of(connection)
        found = busy.writers.noted().faults(rows, busy.kept, busy.promised)
        if busy.scale and not sums_agree(database):
            found.append("pgbench's sums differ")
        return [f"{busy.name}: {one}" for one in found]


@dataclass
class Proof:
    """The object store, the proxy before it, and where machines are made."""

    store: ObjectStore
    proxy: FaultyStore
    root: Path
    chance: random.Random
    rate: int
    lost_seconds: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)

    @contextlib.contextmanager
    def new_machine(self, prefix: str) -> Iterator[Machine]:
        """Start Ramet on a new machine, with an archive of its own in the bucket, and services under load."""
        variables = {
            "RAMET_ARCHIVE_URL": f"{self.store.url}/{prefix}",
            **FREQUENT_SNAPSHOTS,
            **self.store.environment(self.proxy.url),
        }
        place = Path(tempfile.mkdtemp(prefix="machine-", dir=self.root))
        place.chmod(0o711)
        machine = Machine(Instance(place, variables), self.root)
        try:
            machine.instance.up()
            yield machine
        finally:
            if place.exists():
                machine.lose()

    def trial(self, number: int) -> Trial:
        with self.new_machine(f"machine-{number}") as machine:
            shop, notes = machine.create("shop", scale=1), machine.create("notes")
            machine.listen()
            for busy in (shop, notes):
                busy.begin(self.rate)
            eventually(lambda: all(busy.promised for busy in machine.services), "archived_until of all", 0.1)
            time.sleep(self.chance.uniform(0, _LONGEST_LOAD_SECONDS))
            loss = Loss(machine, machine.lose())
        begun, faults = time.monotonic(), list[str]()
        for busy in machine.services:
            with restored_by_barman(self.store, f"machine-{number}", busy, self.root) as server:
                faults += loss.faults(busy, server)
        return Trial("Barman", time.monotonic() - begun, 0, 0, tuple(faults))


def main(arguments: list[str]) -> int:
    """Run the proof; 0 when nothing was lost that was promised."""
    given = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    results = Results("archive", seed)
    print(f"archive: {given.trials} trials on {given.store}, seed {seed}", file=sys.stderr)
    with (
        _root(given.data) as root,
        object_store(given.store, root) as store,
        faulty_store(store.endpoint, replace(_FAULTS, seed=seed)) as proxy,
    ):
        proof = Proof(store, proxy, root, random.Random(seed), given.rate)  # noqa: S311 - a seed repeats a run
        for number in range(given.trials):
            results.run("Barman", partial(proof.trial, number))
        print(results.summary(), flush=True)
        print(proxy.injected)
    return 1 if any(trial.failed for trial in results.trials) else 0


@contextlib.contextmanager
def _root(directory: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ramet-prove-", dir=directory) as name:
        root = Path(name)
        root.chmod(0o711)
        yield root


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove archive", description=__doc__)
    parser.add_argument("--trials", type=int, default=50, help="how often the machine is lost (50)")
    parser.add_argument("--store", choices=STORES, default="moto", help="the S3 server (moto)")
    parser.add_argument("--seed", type=int, help="the same seed makes the same choices again")
    parser.add_argument("--rate", type=int, default=200, help="transactions a second of pgbench (200)")
    parser.add_argument("--data", type=Path, help="where to make the data directories (the system's temporary one)")
    return parser
