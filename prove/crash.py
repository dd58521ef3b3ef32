"""Kill any process with SIGKILL, at every step of every procedure and at random times, and verify that nothing is lost.

After each kill `ramet up` is started again, and then each service must be READY or gone with its reason, every ledger
must hold what was acknowledged, and host and store must agree: no leftovers.
"""

import argparse
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.instance import FREQUENT_SNAPSHOTS, Instance, running_instance
from harness.waiting import eventually
from prove.chaos import EXPIRY, Workload, steps_of_all
from prove.made import FAULTS, Made
from ramet.machine.processes import record_of
from ramet.model.procedures import ProcedureName

_APPEAR_SECONDS = 30.0
_LONGEST_JITTER_SECONDS = 0.08


@dataclass
class Tally:
    """What was done, and what came of it."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    back_seconds: list[float] = field(default_factory=list)

    def summary(self) -> str:
        """Return the figures."""
        slowest = max(self.back_seconds, default=0.0)
        lines = [f"{name}: {count}" for name, count in sorted(self.counts.items())]
        return "\n".join([*lines, f"slowest return to rest: {slowest:.1f} s", f"faults: {len(self.faults)}"])


def main(arguments: list[str]) -> int:
    """Run the proof; 0 when nothing was lost and nothing left over."""
    given = _parser().parse_args(arguments)
    first = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    tally = Tally()
    print(f"crash: {given.seeds} seeds, the first is {first}", file=sys.stderr)
    interrupted = False
    with running_instance(given.data, **FREQUENT_SNAPSHOTS) as instance:
        try:
            _run(instance, given, first, tally)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            print(tally.summary(), *tally.faults, sep="\n", flush=True)
    return 130 if interrupted else 1 if tally.faults else 0


def _run(instance: Instance, given: argparse.Namespace, first: int, tally: Tally) -> None:
    workload = Workload(instance)
    workload.prepare()
    plans = [plan for plan in _plans(workload) if given.only in plan.title]
    for number in range(given.seeds):
        plan, seed = plans[number % len(plans)], first + number
        faults = _trial(instance, workload, plan, random.Random(seed), tally)  # noqa: S311 - no secret
        tally.counts["trials"] += 1
        tally.counts["trials that failed"] += bool(faults)
        tally.faults += [f"seed {seed}, {plan.title}: {fault}" for fault in faults]
        print(f"crash {number + 1:4d} seed {seed} {plan.title:<28} {'; '.join(faults) or 'ok'}", file=sys.stderr)
        if faults and given.stop:
            _show_log(instance)
            break
    tally.faults += workload.final_faults()


@dataclass(frozen=True)
class Plan:
    """One way to do harm. `harm` returns what is counted."""

    title: str
    harm: Callable[[random.Random], str]


def _plans(workload: Workload) -> list[Plan]:
    instance = workload.instance
    plans = [
        Plan(f"{procedure}.{step}", _at_step(workload, procedure, step))
        for procedure, step in steps_of_all(instance)
        if procedure in workload.known
    ]
    plans += [
        Plan(f"{EXPIRY}.{step}", _at_step(workload, procedure, step, EXPIRY))
        for procedure, step in steps_of_all(instance)
        if procedure == ProcedureName.DELETE
    ]
    for _ in range(3):
        plans += [
            Plan("random time", lambda chance: _at_random(workload, chance)),
            Plan("random time", lambda chance: _at_random(workload, chance)),
            Plan("fork's server in recovery", lambda chance: _fork_server(workload, chance)),
            Plan("parent's server in capture", lambda chance: _parent_server(workload, chance)),
            Plan("undo", lambda chance: _while_undoing(workload, chance)),
        ]
    return plans


def _trial(instance: Instance, workload: Workload, plan: Plan, chance: random.Random, tally: Tally) -> list[str]:
    try:
        tally.counts[plan.harm(chance)] += 1
        begun = time.monotonic()
        if instance.process is None:
            instance.up()
        eventually(workload.servers_answer, "every server answers")
        instance.await_idle()
        tally.back_seconds.append(time.monotonic() - begun)
        faults = workload.faults(tally.counts)
        faults += [f"before cleaning: {one}" for one in instance.leftovers()]
        workload.clean_up()
        instance.await_idle()
        left = instance.leftovers()
        tally.counts["leftovers"] += len(left)
        return faults + left
    except FAULTS as fault:
        return [f"{type(fault).__name__}: {fault}", *_start_over(instance, workload)]


def _start_over(instance: Instance, workload: Workload) -> list[str]:
    """Bring all to rest after a trial that went wrong, so that the next one is not about it; say what stays wrong."""
    try:
        instance.kill()  # it may run, and never have come to be ready
        instance.up()
        instance.await_idle()
        workload.clean_up()
        instance.await_idle()
    except FAULTS as fault:
        workload.forget()
        return [f"and then {type(fault).__name__}: {fault}"]
    return []


def _at_step(workload: Workload, procedure: str, step: str, cause: str = "") -> Callable[[random.Random], str]:
    """Kill Ramet when a procedure is at a step; `cause` is what sets it going, if that is not what it is called."""

    def harm(chance: random.Random) -> str:
        mark = workload.mark()
        workload.do(cause or procedure, chance)
        seen = workload.await_step(mark, procedure, step, _APPEAR_SECONDS)
        time.sleep(chance.uniform(0, _LONGEST_JITTER_SECONDS) if chance.random() < 0.7 else 0)
        workload.instance.kill()
        return "kills of ramet at a step" if seen else "kills of ramet after a step"

    return harm


def _at_random(workload: Workload, chance: random.Random) -> str:
    for procedure in chance.sample(["fork", "fork", "fork", "create", "snapshot", "resize"], 3):
        workload.do(procedure, chance)
    time.sleep(chance.uniform(0, 1.5))
    workload.instance.kill()
    if chance.random() < 0.3:  # and once more, while it begins again
        with contextlib.suppress(TimeoutError, AssertionError):
            workload.instance.up()
        time.sleep(chance.uniform(0, 0.3))
        workload.instance.kill()
        return "kills of ramet twice in a row"
    return "kills of ramet at random times"


def _fork_server(workload: Workload, chance: random.Random) -> str:
    mark = workload.mark()
    made = workload.fork(chance, chance.choice(["NOW", "PITR", "LAST_SNAPSHOT"]))
    workload.await_step(mark, "fork", "recover", _APPEAR_SECONDS)
    time.sleep(chance.uniform(0, 0.3))
    return "kills of a fork's server" if _kill_server(workload, made) else "kills of a fork's server too early"


def _parent_server(workload: Workload, chance: random.Random) -> str:
    mark = workload.mark()
    workload.fork(chance, chance.choice(["NOW", "PITR"]))
    workload.await_step(mark, "fork", "capture", _APPEAR_SECONDS)
    time.sleep(chance.uniform(0, _LONGEST_JITTER_SECONDS))
    _kill_server(workload, workload.parent)
    return "kills of a parent's server"


def _while_undoing(workload: Workload, chance: random.Random) -> str:
    mark = workload.mark()
    made = workload.fork(chance, "NOW")
    workload.await_step(mark, "fork", chance.choice(["capture", "recover", "secure"]), _APPEAR_SECONDS)
    workload.delete(made)
    workload.await_undoing(mark, 2.0)
    time.sleep(chance.uniform(0, _LONGEST_JITTER_SECONDS))
    workload.instance.kill()
    return "kills of ramet while it undoes"


def _kill_server(workload: Workload, made: Made) -> bool:
    pid = workload.pid_of(made)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    # Until it is gone it may still answer, and count as a server that came back.
    eventually(lambda: record_of(pid) is None, "the killed server is gone")
    return True


def _show_log(instance: Instance) -> None:
    print(instance.log[-6000:], file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/prove crash", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, help="how many kills (60)")
    parser.add_argument("--seed", type=int, help="the first seed; the same one does the same harm again")
    parser.add_argument("--only", default="", help="only plans whose title holds this text, fork.capture for instance")
    parser.add_argument("--stop", action="store_true", help="stop at the first fault and show the log")
    parser.add_argument("--data", type=Path, help="where to make the data directory (the system's temporary one)")
    return parser
