"""A worker in a separate process: `python -m tests.operations.worker_process URL MARKS LEASE_SECONDS [HOLD_AT]`.

Each step appends a line to the file MARKS. At step HOLD_AT the process says so on standard output and waits for a line
on standard input, so that a test can stop or kill it in the midst of that step. It ends when standard input does.
"""

import os
import sys
from pathlib import Path
from typing import Any

from ramet.operations.procedure import Done, Next, Outcome, Procedure, Step, Work
from ramet.operations.worker import Worker
from ramet.store.database import Store
from tests.operations.effects import writes

STEPS = tuple(f"step{number}" for number in range(5))


def procedure(marks: Path, hold_at: str | None = None) -> Procedure:
    """Return a procedure of five steps that count themselves in the store and mark a file."""
    steps: dict[str, Step] = {}
    for number, name in enumerate(STEPS):
        steps[name] = _step(marks, STEPS[number + 1] if number + 1 < len(STEPS) else None, name == hold_at)
    return Procedure("process", steps)


def _step(marks: Path, following: str | None, holds: bool) -> Step:
    def run(work: Work[Any]) -> Outcome:
        with marks.open("a") as file:
            file.write(f"{os.getpid()} {work.operation_id} {work.step}\n")
        if holds:
            print("holding", flush=True)
            sys.stdin.readline()
        return Done(changes=writes(work)) if following is None else Next(following, changes=writes(work))

    return run


def main(url: str, marks: str, lease_seconds: str, hold_at: str | None = None) -> None:
    store = Store.open(url)
    worker = Worker(store, [procedure(Path(marks), hold_at)], threads=4, lease_seconds=float(lease_seconds))
    worker.start()
    print("started", flush=True)
    if hold_at is None:
        sys.stdin.read()
    else:
        worker._stopping.wait()
    worker.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
