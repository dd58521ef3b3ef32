"""Lose the machine at random times under load, recover its services from the object store, and compare every row.

Everything that was confirmed to a client before the last `archived_until` that Ramet announced must be there, nothing
that was never sent, and the rows must be a prefix of the order of commits. The recovered machine is the next one to be
lost. The object store is a real S3 server, behind a proxy that answers some requests with 503, resets or truncated
answers, or late. A trial that fails ends its row of machines: the next one begins with a new installation.
"""

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.faulty_store import Faults, faulty_store
from harness.object_stores import STORES, object_store
from prove.losses import KINDS, Proof
from prove.results import Results

_FAULTS = Faults(slow_down=0.04, reset_request=0.02, reset_answer=0.02, truncated=0.02, delay=0.1)


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
        kinds = itertools.cycle([kind for kind in KINDS if given.only in kind])
        try:
            for kind in itertools.islice(kinds, given.trials):
                results.run(kind, partial(proof.trial, kind))
        finally:
            proof.end()
            failed = sum(trial.failed for trial in results.trials)
            print(f"archive: {len(results.trials)} trials on {given.store}, {failed} failures, seed {seed}")
            print(proof.figures(), flush=True)
    return 1 if failed else 0


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
    parser.add_argument("--only", default="", help=f"only kinds of trials whose name contains this: {', '.join(KINDS)}")
    parser.add_argument("--data", type=Path, help="where to make the data directories (the system's temporary one)")
    return parser
