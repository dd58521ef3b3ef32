"""The laws that every procedure keeps, as checks over any world.

A step may run twice; a failure at any step unwinds to nothing left; an undo may run twice; a crash between a step's
effect and its record changes nothing of the end.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ramet.errors import Failed
from ramet.operations.procedure import Outcome, Procedure, Step, Undo, Work

Rewrite = Callable[[Procedure], Procedure]


class Crash(BaseException):
    """The process dies here: nothing catches it."""


def twice(procedure: Procedure, step: str) -> Procedure:
    """Run `step` twice each time."""

    def run(work: Work[Any]) -> Outcome:
        procedure.steps[step](work)
        return procedure.steps[step](work)

    return _with_step(procedure, step, run)


def undone_twice(procedure: Procedure) -> Procedure:
    """Run each undo twice."""

    def doubled(undo: Undo) -> Undo:
        def run(work: Work[Any]) -> None:
            undo(work)
            undo(work)

        return run

    return replace(procedure, undo={name: doubled(undo) for name, undo in procedure.undo.items()})


def failing(procedure: Procedure, step: str, *, after: bool) -> Procedure:
    """Fail for good at `step`, before or after its effect."""

    def run(work: Work[Any]) -> Outcome:
        if after:
            procedure.steps[step](work)
        raise Failed("INJECTED", f"Injected at {step}")

    return _with_step(procedure, step, run)


def crashing(procedure: Procedure, step: str) -> Procedure:
    """Die once after the effect of `step`, before it is recorded."""
    crashed: list[str] = []

    def run(work: Work[Any]) -> Outcome:
        outcome = procedure.steps[step](work)
        if not crashed:
            crashed.append(step)
            raise Crash
        return outcome

    return _with_step(procedure, step, run)


def recorded(procedure: Procedure, step: str, ran: list[str]) -> Procedure:
    """Add `step` to `ran` each time that it runs: a law that no step has met is not kept."""

    def run(work: Work[Any]) -> Outcome:
        ran.append(step)
        return procedure.steps[step](work)

    return _with_step(procedure, step, run)


def rewritten(procedures: Sequence[Procedure], name: str, rewrite: Rewrite) -> list[Procedure]:
    """Return the procedures with the named one rewritten."""
    return [rewrite(procedure) if procedure.name == name else procedure for procedure in procedures]


def _with_step(procedure: Procedure, step: str, run: Step) -> Procedure:
    return replace(procedure, steps={**procedure.steps, step: run})
