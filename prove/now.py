"""Forks as of now under load: each must hold every row that was acknowledged before it was asked for, and no hole."""

from functools import partial

from prove.ground import Ground, Running
from prove.load import Ledger
from prove.oracle import all_transactions, ledger_rows, sums_agree
from prove.results import Results, Trial
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy


def prove_now(ground: Ground, parent: Running, ledger: Ledger, results: Results, trials: int) -> None:
    """Run the trials."""
    for number in range(trials):
        results.run(f"now-{number}", partial(_trial, ground, parent, ledger, number))


def _trial(ground: Ground, parent: Running, ledger: Ledger, number: int) -> Trial:
    acknowledged = ledger.acknowledged
    fork = ground.fork(parent, ForkRequest(ForkStrategy.NOW, name=f"now-{number}"))
    rows = set(ledger_rows(fork))
    missing = set(range(1, max([acknowledged, *rows]) + 1)) - rows
    faults = [] if sums_agree(fork) else ["pgbench's sums differ"]
    faults += _strangers(parent, fork)
    ground.delete(fork)
    return Trial(f"{acknowledged} acknowledged", fork.seconds, len(missing), 0, tuple(faults))


def _strangers(parent: Running, fork: Running) -> list[str]:
    """Write to the fork, and see that the parent has nothing of it nor the fork anything that the parent lacks."""
    if not all_transactions(fork) <= all_transactions(parent):
        return ["the fork holds transactions that its parent never had"]
    with fork.connect() as connection:
        connection.execute("INSERT INTO ledger VALUES (-1, now())")
    with parent.connect() as connection:
        leaked = connection.execute("SELECT 1 FROM ledger WHERE n = -1").fetchone()
    return [] if leaked is None else ["a write to the fork shows in the parent"]
