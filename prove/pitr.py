"""Forks of past times under load: each must contain exactly the transactions with a commit timestamp up to its target.

Commit timestamps are taken before records are written, so with several clients the order of times and the order of
WAL may differ by microseconds, and recovery stops at the first record beyond the target. A transaction behind that
record with an earlier time is left out by definition; the fork's report names it, and it is counted apart.
"""

import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from prove.ground import Ground, Running
from prove.load import Ledger
from prove.oracle import all_transactions, compare, sums_agree, transactions_until
from prove.quiet import ACTS, Quiet
from prove.results import Results, Trial
from ramet.control import services
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.timestamps import rfc3339

_QUIET_TURN = 3
_MICROSECOND = timedelta(microseconds=1)
_KINDS = ("random", "on a commit", "1 us before a commit", "1 us after a commit", "between two commits", "just now")


def prove_pitr(ground: Ground, parent: Running, ledger: Ledger, results: Results, trials: int) -> None:
    """Run the trials; kinds of targets take turns. Every fourth trial has a service without other transactions."""
    choose = random.Random(results.seed)  # noqa: S311 - a seed must give the same run again
    quiet, acts = Quiet(ground, ground.create("quiet")), itertools.cycle(ACTS)
    kinds = itertools.cycle(_KINDS)
    for number in range(trials):
        if number % 4 == _QUIET_TURN:
            act = next(acts)
            results.run(act, partial(quiet.trial, act, choose))
        else:
            kind = next(kinds)
            results.run(kind, partial(_trial, ground, parent, ledger, kind, choose))
    ground.delete(quiet.running)


def _trial(ground: Ground, parent: Running, ledger: Ledger, kind: str, choose: random.Random) -> Trial:
    target = _target(parent, ledger.began_at, kind, choose)
    fork = ground.fork(parent, ForkRequest(ForkStrategy.PITR, target_time=rfc3339(target)))
    difference = compare(transactions_until(parent, target), all_transactions(fork))
    behind = behind_the_border(ground, fork)
    inverted = difference.missing & behind
    faults = [] if sums_agree(fork) else ["pgbench's sums differ"]
    ground.delete(fork)
    return Trial(kind, fork.seconds, difference.count - len(inverted), len(inverted), tuple(faults))


def behind_the_border(ground: Ground, fork: Running) -> frozenset[int]:
    """Return the transactions that a fork left out although they bear an earlier time, by its report."""
    report = services.get_service(ground.plane, ground.project_id, fork.service.id).report or {}
    return frozenset(report["capture"].get("cut", {}).get("behind_with_earlier_time", []))


def _target(parent: Running, earliest: datetime, kind: str, choose: random.Random) -> datetime:
    if kind == "just now":
        return datetime.now(UTC)
    if kind == "random":
        return earliest + choose.random() * (datetime.now(UTC) - earliest)
    first, second = _two_commits(parent, earliest, choose)
    targets: dict[str, Callable[[], datetime]] = {
        "on a commit": lambda: first,
        "1 us before a commit": lambda: first - _MICROSECOND,
        "1 us after a commit": lambda: first + _MICROSECOND,
        "between two commits": lambda: first + (second - first) / 2,
    }
    return max(targets[kind](), earliest)


def _two_commits(parent: Running, earliest: datetime, choose: random.Random) -> tuple[datetime, datetime]:
    query = """
        SELECT pg_xact_commit_timestamp(xmin) FROM ledger
        WHERE n >= (SELECT min(n) + floor(%s * (max(n) - min(n) - 1)) FROM ledger
                    WHERE pg_xact_commit_timestamp(xmin) > %s)
        ORDER BY n LIMIT 2
    """
    with parent.connect() as connection:
        rows = connection.execute(query, (choose.random(), earliest)).fetchall()
    first, second = (row[0] for row in rows)
    if not (isinstance(first, datetime) and isinstance(second, datetime)):
        raise AssertionError("the ledger's commits have no times")
    return first.astimezone(UTC), second.astimezone(UTC)
