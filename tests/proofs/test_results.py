"""How proofs count what goes wrong."""

import pytest

from prove.results import Results, Trial


def test_a_fork_that_fails_is_a_failed_trial_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results("now", 1)

    def fail() -> Trial:
        raise AssertionError("service abc is UNSTABLE:\nno room")

    results.run("first", fail)
    results.run("second", lambda: Trial("second", 0.5, 0))
    assert [trial.failed for trial in results.trials] == [True, False]
    assert "no room" in capsys.readouterr().err
    assert "2 trials, 1 failures" in results.summary()
    assert "p50 0.500 s" in results.summary()


def test_an_interruption_is_not_taken_for_a_trial() -> None:
    results = Results("now", 1)

    def interrupt() -> Trial:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.run("first", interrupt)
    assert results.trials == []
    assert "0 trials" in results.summary()
