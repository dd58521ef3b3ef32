"""Titles of operations and their steps, and how far each step is."""

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.model.operation_record import OperationRecord
from ramet.model.procedures import SPECS
from ramet.model.status import OperationStatus

_STATES = {"DONE": "done", "UNDONE": "undone", "ABANDONED": "failed", "RETRIED": "retried"}


@dataclass(frozen=True)
class Step:
    """A step of an operation. `state`: done, active, waiting, undone, retried or failed; `note`: progress or error."""

    title: str
    state: str
    seconds: float | None = None
    note: str = ""


def steps_of(operation: OperationRecord) -> Sequence[Step]:
    """Return the steps of an operation, including later ones where they are known."""
    spec = SPECS.get(operation.procedure)
    names = dict.fromkeys(spec.steps if spec is not None and spec.creates else ())
    names.update(dict.fromkeys(event.step for event in operation.events))
    if operation.status is OperationStatus.RUNNING:
        names[operation.step] = None
    return [_step(operation, name) for name in names]


def grouped(listed: Sequence[OperationRecord], most: int | None = None) -> Sequence[tuple[OperationRecord, int]]:
    """Return operations, newest first; successive successes of a kind are one entry, with the number of the others."""
    groups: list[tuple[OperationRecord, int]] = []
    for operation in listed:
        last, more = groups[-1] if groups else (None, 0)
        if last is not None and _succeeded(last, last.procedure) and _succeeded(operation, last.procedure):
            groups[-1] = (last, more + 1)
        else:
            groups.append((operation, 0))
    return groups[:most]


def _succeeded(operation: OperationRecord, procedure: str) -> bool:
    return operation.procedure == procedure and operation.status is OperationStatus.SUCCEEDED


def title_of(operation: OperationRecord) -> str:
    """Return the title of an operation."""
    return SPECS[operation.procedure].title if operation.procedure in SPECS else _in_words(operation.procedure)


def step_title(procedure: str, step: str) -> str:
    """Return the title of a step."""
    titles = SPECS[procedure].steps if procedure in SPECS else {}
    return titles.get(step, _in_words(step))


def _in_words(stored_name: str) -> str:
    """Return a title for a name that only another release knows."""
    return stored_name.replace("_", " ").capitalize()


def seconds_of(operation: OperationRecord) -> float | None:
    """Return how long an operation took; None until it has finished."""
    return None if operation.finished_at is None else (operation.finished_at - operation.created_at).total_seconds()


def _step(operation: OperationRecord, name: str) -> Step:
    title = step_title(operation.procedure, name)
    own = [event for event in operation.events if event.step == name]
    last = next((event for event in reversed(own) if event.outcome == "ABANDONED"), own[-1] if own else None)
    error = "" if last is None else last.error or ""
    if operation.status is OperationStatus.RUNNING and name == operation.step:
        return Step(title, "active", None, operation.progress or error)
    if last is None:
        return Step(title, "waiting")
    return Step(title, _STATES.get(last.outcome, "failed"), last.seconds, error)
