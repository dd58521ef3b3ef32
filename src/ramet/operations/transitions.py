"""The row of an operation after a step, an error or an undo: pure functions from one row to the next."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ramet.model.progress import with_warning, without_warning
from ramet.model.status import OperationStatus
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait
from ramet.store.operations import Operation

MAX_ATTEMPTS = 8
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_UNSEEN_PAUSE_SECONDS = 1.0
_UNSEEN = "It cannot be seen how far this is."
ERROR_LIMIT = 4000


@dataclass(frozen=True)
class Transition:
    """The operation as it is to be recorded.

    In `after`, `attempt` counts the attempts at the step that have ended. `pause_seconds` of 0 means: continue at once.
    `event` is the outcome that the history shows, None for what needs no entry. `begins_step`: its step begins when it
    is recorded. `durable`: no power cut may take it back. `early`: it may be read before it is on disk.
    """

    after: Operation
    pause_seconds: float = 0.0
    event: str | None = None
    error: str | None = None
    begins_step: bool = False
    durable: bool = False
    early: bool = False


def stepped(operation: Operation, outcome: Outcome, procedure: Procedure, seconds: float) -> Transition:
    """Return the transition for the outcome of a step that took so many seconds."""
    match outcome:
        case Next():
            after = _at(operation, outcome.step, outcome.state)
            return Transition(after, event="DONE", begins_step=True, durable=outcome.durable, early=outcome.early)
        case Done():
            over = replace(operation, status=OperationStatus.SUCCEEDED, state=_merged(operation, outcome.state))
            return Transition(replace(over, error=None), event="DONE", error=outcome.warning)
        case Wait():
            return _waiting(operation, outcome, procedure, seconds)


def retried(operation: Operation, error: str, procedure: Procedure) -> Transition:
    """Return the transition for an error after which the step is tried again."""
    if operation.attempt >= MAX_ATTEMPTS:
        return abandoned(operation, error, procedure)
    after = replace(operation, error=error[:ERROR_LIMIT])
    return Transition(after, _pause(operation.attempt), "RETRIED", error)


def unseen(operation: Operation, error: str, procedure: Procedure, seconds: float) -> Transition:
    """Return the transition for an attempt that could not look at what it works on, and so says nothing about that.

    It is waited for until the deadline, however often that is tried: what it cannot reach may be away for minutes.
    """
    return _waiting(operation, Wait(_UNSEEN_PAUSE_SECONDS, with_warning(_UNSEEN, error)), procedure, seconds)


def abandoned(operation: Operation, error: str, procedure: Procedure) -> Transition:
    """Return the beginning of the undoing: all finished steps and the present one, which may be half done."""
    begun = dict.fromkeys((*operation.done_steps, operation.step))
    cause = replace(operation, error=error[:ERROR_LIMIT])
    return Transition(_undoing(cause, tuple(s for s in begun if s in procedure.undo)), event="ABANDONED", error=error)


def undone(operation: Operation) -> Transition:
    """Return what follows the undo of a step: the undo of the one before, or FAILED after the last."""
    return Transition(_undoing(operation, operation.done_steps), event="UNDONE")


def undo_retried(operation: Operation, error: str) -> Transition:
    """Return another attempt at an undo, less and less often: giving up would leave something behind."""
    event = "UNDO_RETRIED" if operation.attempt <= MAX_ATTEMPTS else None
    return Transition(operation, _pause(operation.attempt), event, error)


def _merged(operation: Operation, state: msgspec.Struct | None) -> dict[str, Any]:
    """Return the state to store: fields that only another release knows stay."""
    return operation.state if state is None else {**operation.state, **msgspec.to_builtins(state)}


def _at(operation: Operation, step: str, state: msgspec.Struct | None) -> Operation:
    return replace(
        operation,
        step=step,
        state=_merged(operation, state),
        done_steps=(*operation.done_steps, operation.step),
        attempt=0,
        progress="",
        idle_seconds=0.0,
        error=None,
    )


def _waiting(operation: Operation, wait: Wait, procedure: Procedure, seconds: float) -> Transition:
    pause_seconds = max(0.0, wait.seconds)
    is_idle = without_warning(wait.progress) == without_warning(operation.progress)
    idle_seconds = operation.idle_seconds + seconds if is_idle else 0.0
    if idle_seconds > procedure.deadline_seconds:
        sentence = f"Step {operation.step} made no progress for {procedure.deadline_seconds:g} s"
        return abandoned(operation, f"{sentence}: {wait.progress}." if wait.progress else f"{sentence}.", procedure)
    idle_seconds += pause_seconds
    waiting = replace(operation, attempt=0, error=None, progress=wait.progress, idle_seconds=idle_seconds)
    return Transition(waiting, pause_seconds)


def _undoing(operation: Operation, pending: tuple[str, ...]) -> Operation:
    if not pending:
        return replace(operation, status=OperationStatus.FAILED, done_steps=())
    undoing = replace(operation, status=OperationStatus.UNDOING, attempt=0)
    return replace(undoing, step=pending[-1], done_steps=pending[:-1])


def _pause(attempt: int) -> float:
    return min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(attempt - 1, 10))
