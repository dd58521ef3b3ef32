"""The trials of a proof, and what they come to."""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from ramet.errors import Error

FAULTS = (AssertionError, Error, OSError, psycopg.Error)


@dataclass(frozen=True)
class Trial:
    """One fork. `error` counts transactions; `inverted` those that clocks and WAL order disagree about."""

    name: str
    seconds: float
    error: int
    inverted: int = 0
    faults: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the fork is not what it should be."""
        return self.error > 0 or bool(self.faults)


@dataclass
class Results:
    """All trials so far."""

    title: str
    seed: int
    trials: list[Trial] = field(default_factory=list)

    def run(self, name: str, trial: Callable[[], Trial]) -> None:
        """Run a trial and note it; a fork that fails, or cannot be asked, is a failed trial with its reason."""
        begun = time.monotonic()
        try:
            made = trial()
        except FAULTS as fault:
            reason = " ".join(f"{type(fault).__name__}: {fault}".split())
            made = Trial(name, time.monotonic() - begun, 0, 0, (reason,))
        self.add(made)

    def add(self, trial: Trial) -> None:
        """Note a trial, and show it."""
        self.trials.append(trial)
        state = "FAILED" if trial.failed else "ok"
        notes = "; ".join(trial.faults) + (f" inverted {trial.inverted}" if trial.inverted else "")
        line = (
            f"{self.title} {len(self.trials):4d} {trial.name:<32} {trial.seconds:7.3f} s  error {trial.error}  {state}"
        )
        print(f"{line} {notes}".rstrip(), file=sys.stderr, flush=True)

    def summary(self) -> str:
        """Return the figures."""
        failed = [trial for trial in self.trials if trial.failed]
        seconds = sorted(trial.seconds for trial in self.trials if not trial.faults)
        inverted = sum(trial.inverted for trial in self.trials)
        lines = [
            f"{self.title}: {len(self.trials)} trials, {len(failed)} failures, seed {self.seed}",
            f"largest error: {max((trial.error for trial in self.trials), default=0)} transactions",
            (
                f"transactions behind the border that bear an earlier time: {inverted},"
                f" in {sum(1 for trial in self.trials if trial.inverted)} trials"
            ),
        ]
        if seconds:
            lines.append(
                f"request to READY: p50 {statistics.median(seconds):.3f} s,"
                f" p95 {seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]:.3f} s, max {seconds[-1]:.3f} s"
            )
        return "\n".join(lines)
