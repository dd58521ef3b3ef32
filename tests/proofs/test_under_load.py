"""The large proofs at small size: pgbench and a ledger write while services are forked."""

from collections.abc import Iterator

import pytest

from harness.waiting import eventually
from prove.ground import Ground, Running
from prove.load import Ledger, load
from prove.now import prove_now
from prove.oracle import compare
from prove.pitr import prove_pitr
from prove.results import Results, Trial


@pytest.fixture(scope="module")
def busy(ground: Ground) -> Iterator[tuple[Running, Ledger]]:
    """A service under load."""
    parent = ground.create("busy")
    with load(ground, parent, scale=1, clients=2, rate=200) as ledger:
        eventually(lambda: ledger.acknowledged > 200)
        yield parent, ledger
    ground.delete(parent)


def test_forks_of_target_times_under_load_are_exact(ground: Ground, busy: tuple[Running, Ledger]) -> None:
    results = Results("pitr", seed=4)
    prove_pitr(ground, *busy, results, trials=8)
    assert [trial for trial in results.trials if trial.failed] == []


def test_forks_of_now_under_load_lose_nothing(ground: Ground, busy: tuple[Running, Ledger]) -> None:
    results = Results("now", seed=4)
    prove_now(ground, *busy, results, trials=2)
    assert [trial for trial in results.trials if trial.failed] == []


def test_the_oracle_counts_what_is_missing_and_what_is_surplus() -> None:
    difference = compare(frozenset((1, 2, 3)), frozenset((2, 3, 4, 5)))
    assert (difference.missing, difference.surplus) == (frozenset((1,)), frozenset((4, 5)))
    assert difference.count == 3


def test_a_trial_with_an_error_or_a_fault_has_failed() -> None:
    results = Results("now", seed=4)
    for trial in (Trial("sound", 1.0, 0, inverted=2), Trial("lost one", 2.0, 1), Trial("torn", 3.0, 0, 0, ("sums",))):
        results.add(trial)
    assert [trial.name for trial in results.trials if trial.failed] == ["lost one", "torn"]
    assert "3 trials, 2 failures, seed 4" in results.summary()
    assert "largest error: 1 transactions" in results.summary()
