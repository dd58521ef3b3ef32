"""The command line of the proofs."""

import argparse
import logging
import random
import sys
import time
from pathlib import Path

from prove import archive, clock, crash, crowd, follow, restore, sleep, storm
from prove.ground import open_ground
from prove.load import load
from prove.now import prove_now
from prove.pitr import prove_pitr
from prove.results import Results

_PROOFS = {"pitr": prove_pitr, "now": prove_now}
_PROOFS_OF_PROCESSES = {  # with their own arguments
    "archive": archive.main,
    "clock": clock.main,
    "crash": crash.main,
    "crowd": crowd.main,
    "follow": follow.main,
    "restore": restore.main,
    "sleep": sleep.main,
    "storm": storm.main,
}
_WARM_UP_SECONDS = 5.0


def main() -> int:
    """Run one proof; 0 when no trial failed."""
    try:
        return _main()
    except KeyboardInterrupt:
        print("interrupted: what was figured until then is above, if anything is", file=sys.stderr)
        return 130


def _main() -> int:
    if sys.argv[1:] and sys.argv[1] in _PROOFS_OF_PROCESSES:
        return _PROOFS_OF_PROCESSES[sys.argv[1]](sys.argv[2:])
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    results = Results(arguments.proof, seed)
    print(f"{arguments.proof}: {arguments.trials} trials, seed {seed}", file=sys.stderr)
    _prove(arguments, results)
    return 1 if any(trial.failed for trial in results.trials) else 0


def _prove(arguments: argparse.Namespace, results: Results) -> None:
    """Run the trials over a fresh ground under load; the figures are printed however that ends."""
    with open_ground(arguments.data, arguments.snapshot_seconds) as ground:
        parent = ground.create("prove")
        with load(ground, parent, arguments.scale, arguments.clients, arguments.rate) as ledger:
            time.sleep(_WARM_UP_SECONDS)
            try:
                _PROOFS[arguments.proof](ground, parent, ledger, results, arguments.trials)
            finally:
                print(results.summary(), flush=True)


def _parser() -> argparse.ArgumentParser:
    others = ", ".join(f"script/prove {name} --help" for name in sorted(_PROOFS_OF_PROCESSES))
    parser = argparse.ArgumentParser(prog="script/prove", description=__doc__, epilog=f"The other proofs: {others}")
    parser.add_argument("proof", choices=sorted(_PROOFS), help="which forks to try")
    parser.add_argument("--trials", type=int, default=30, help="how many forks (30)")
    parser.add_argument("--seed", type=int, help="the same seed chooses the same times again")
    parser.add_argument("--scale", type=int, default=5, help="pgbench's scale, 15 MB each (5)")
    parser.add_argument("--clients", type=int, default=4, help="pgbench's clients (4)")
    parser.add_argument("--rate", type=int, default=400, help="transactions a second, 0 for as many as it can (400)")
    parser.add_argument("--snapshot-seconds", type=float, default=20.0, help="a snapshot of the parent so often (20)")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
