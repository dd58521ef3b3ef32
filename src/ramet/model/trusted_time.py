"""What retention trusts of the wall clock: a step forward counts only after the host has run for a day with it.

A clock that is ahead, for an hour or for a year, would make everything that is kept look older than it is, and what is
removed then does not come back. The time since boot tells a step from time that passed. While a host is down nothing
tells them apart: that time counts a day later, too.
"""

from dataclasses import dataclass, replace

CONFIRMED_SECONDS = 86_400.0
_SLACK_SECONDS = 60.0
_DRIFT = 0.001


@dataclass(frozen=True)
class Reading:
    """What the clocks of a host show: the wall clock in seconds since the epoch, and the time since boot."""

    boot_id: str
    boot_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class Step:
    """How far the wall clock stepped forward, and how long the host has run with that since."""

    seconds: float
    confirmed_seconds: float = 0.0


@dataclass(frozen=True)
class Trust:
    """The last reading, and the steps forward that are not confirmed, oldest first."""

    reading: Reading
    steps: tuple[Step, ...] = ()

    @property
    def wall_seconds(self) -> float:
        """The wall clock without the steps that are not confirmed."""
        return self.reading.wall_seconds - sum(step.seconds for step in self.steps)


def follow(before: Trust, now: Reading) -> Trust:
    """Return what is trusted at another reading."""
    same_boot = before.reading.boot_id == now.boot_id
    ran_seconds = now.boot_seconds - before.reading.boot_seconds if same_boot else now.boot_seconds
    ahead_seconds = now.wall_seconds - before.reading.wall_seconds - ran_seconds
    steps = _confirmed(before.steps, ran_seconds)
    slack_seconds = _SLACK_SECONDS + _DRIFT * ran_seconds
    if ahead_seconds > slack_seconds:
        steps = (*steps, Step(ahead_seconds))
    elif ahead_seconds < -slack_seconds:
        steps = _taken_back(steps, -ahead_seconds)
    return Trust(now, steps)


def _confirmed(steps: tuple[Step, ...], ran_seconds: float) -> tuple[Step, ...]:
    older = (replace(step, confirmed_seconds=step.confirmed_seconds + ran_seconds) for step in steps)
    return tuple(step for step in older if step.confirmed_seconds < CONFIRMED_SECONDS)


def _taken_back(steps: tuple[Step, ...], seconds: float) -> tuple[Step, ...]:
    """Let a step back undo the steps forward before it, the last one first."""
    while steps and seconds > 0:
        *earlier, last = steps
        left = last.seconds - seconds
        seconds -= last.seconds
        steps = (*earlier, replace(last, seconds=left)) if left > _SLACK_SECONDS else tuple(earlier)
    return steps
