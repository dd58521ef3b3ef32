"""Runs the steps of one leased operation. Leasing, threads and wake-up belong to the worker."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from ramet import acting
from ramet.acting import Act
from ramet.errors import Error, Exhausted, Failed, Invalid, Unavailable, Unseen
from ramet.model.operation_record import Event
from ramet.model.status import OperationStatus
from ramet.operations.procedure import Changes, Done, Next, Procedure, StateUnreadable, Work
from ramet.operations.transitions import (
    ERROR_LIMIT,
    MAX_ATTEMPTS,
    Transition,
    abandoned,
    retried,
    stepped,
    undo_retried,
    undone,
    unseen,
)
from ramet.operations.words import in_words
from ramet.store import operations
from ramet.store.database import Store
from ramet.store.operations import LeaseLost, Operation
from ramet.telemetry import TRACE_KEY, trace_parent

_log = logging.getLogger(__name__)
_COMMIT_ATTEMPTS = 5
_HOPELESS = (Failed, Invalid, Exhausted)
GoesOn = Callable[[Operation, bool], bool]
Observe = Callable[[Operation, Operation, Event], None]
_OVER = (OperationStatus.SUCCEEDED, OperationStatus.FAILED)


@dataclass(frozen=True)
class _Unreadable:
    """Takes the place of a state that cannot be decoded: reading a field of it raises the reason."""

    reason: str

    def __getattr__(self, name: str) -> Any:
        raise StateUnreadable("STATE_UNREADABLE", self.reason)


@dataclass(frozen=True)
class Runner:
    """Runs operations that `worker` has leased.

    `goes_on` tells whether a thread may keep its operation as it is now, after a wait (True) or after progress (False).
    `observe` gets each event that was recorded, with the operation before and after it.
    """

    store: Store
    procedures: Mapping[str, Procedure]
    worker: str
    lease_seconds: float
    observe: Observe = lambda _before, _after, _event: None

    def run(self, operation: Operation, goes_on: GoesOn = lambda _after, _waits: True) -> bool:
        """Run an operation until it is over, has to wait, or its lease is lost.

        False when the result is not recorded because the store was unavailable too long: the lease may be released.
        """
        trace = trace_parent.set(str(operation.state.get(TRACE_KEY, "")))
        behalf = None if operation.actor is None else Act(operation.actor, "operation")
        try:
            with acting.acting(behalf):
                following = self._turn(operation, goes_on)
                while following is not None:
                    following = self._turn(following, goes_on)
        except LeaseLost as lost:
            _log.warning("another worker has taken over, nothing is recorded: %s", lost)
        except Unavailable as error:
            _log.warning("operation %s rests until the store is back: %s", operation.id, error.__cause__ or error)
            return False
        except Exception:  # noqa: BLE001 - an ending of the procedure raised: nothing could be recorded
            _log.exception("BUG: operation %s rests until its lease ends", operation.id)
        finally:
            trace_parent.reset(trace)
        return True

    def _turn(self, operation: Operation, goes_on: GoesOn) -> Operation | None:
        transition, changes = self._act(operation)
        try:
            return self._commit(operation, transition, changes, goes_on)
        except (LeaseLost, Unavailable):
            raise
        except Exception as error:  # raised by the row changes: they are tried again together with the step
            if changes is None:
                raise
            return self._commit(operation, self._after_error(operation, error), None, goes_on)

    def _act(self, operation: Operation) -> tuple[Transition, Changes | None]:
        """Run the step or the undo that is due; no transaction is open during that."""
        procedure = self.procedures[operation.procedure]
        work = _work(operation, procedure)
        undoing, begun = operation.status is OperationStatus.UNDOING, time.monotonic()
        if not undoing and operation.cancelled:
            return abandoned(operation, "It was canceled.", procedure), None
        if not undoing and isinstance(work.state, _Unreadable):
            return abandoned(operation, work.state.reason, procedure), None
        if not undoing and operation.attempt > MAX_ATTEMPTS:
            error = f"Step {operation.step} was interrupted {operation.attempt - 1} times."
            return abandoned(operation, error, procedure), None
        try:
            if undoing:
                procedure.undo[operation.step](work)
                return undone(operation), None
            outcome = procedure.steps[operation.step](work)
        except Unseen as error:
            if undoing:
                return self._after_error(operation, error), None
            return unseen(operation, in_words(error), procedure, time.monotonic() - begun), None
        except Exception as error:  # noqa: BLE001 - this is the edge where a step's errors end
            return self._after_error(operation, error), None
        changes = outcome.changes if isinstance(outcome, (Next, Done)) else None
        return stepped(operation, outcome, procedure, time.monotonic() - begun), changes

    def _after_error(self, operation: Operation, error: Exception) -> Transition:
        text = in_words(error)
        if operation.status is OperationStatus.UNDOING:
            is_hopeless = isinstance(error, StateUnreadable)
            transition = undone(operation) if is_hopeless else undo_retried(operation, text)
        elif isinstance(error, _HOPELESS):
            transition = abandoned(operation, text, self.procedures[operation.procedure])
        else:
            transition = retried(operation, text, self.procedures[operation.procedure])
        self._report(operation, transition, error)
        return transition

    def _report(self, operation: Operation, transition: Transition, error: Exception) -> None:
        level = logging.INFO if transition.event == "RETRIED" else logging.WARNING
        trace = None if isinstance(error, Error) else error
        where = f"{operation.procedure}.{operation.step} of {operation.subject} (operation {operation.id})"
        _log.log(level, "%s %s: %s", where, (transition.event or "UNDO_RETRIED").lower(), error, exc_info=trace)

    def _commit(
        self, before: Operation, transition: Transition, changes: Changes | None, goes_on: GoesOn
    ) -> Operation | None:
        """Record a transition; return the operation if this thread continues with it. Raises LeaseLost."""
        is_due = transition.after.status not in _OVER and transition.pause_seconds == 0
        keeps = is_due and goes_on(transition.after, transition.event is None)
        for attempt in range(1, _COMMIT_ATTEMPTS + 1):
            try:
                return self._record(before, transition, changes, keeps)
            except Unavailable:
                if attempt == _COMMIT_ATTEMPTS:
                    raise
                time.sleep(0.05 * 2**attempt)
        raise AssertionError("BUG: the last attempt returns or raises")

    def _record(
        self, before: Operation, transition: Transition, changes: Changes | None, keeps: bool
    ) -> Operation | None:
        is_durable = self._is_durable(transition, changes)
        with self.store.write(durable=is_durable, early=transition.early, patient=True) as tx:
            # Row changes come before the operation's own row: the verbs lock a service first, then its operation.
            if changes is not None:
                changes(tx)
            self._call_endings(tx, before, transition.after)
            begins = transition.begins_step
            if keeps:
                begun = replace(transition.after, attempt=transition.after.attempt + 1)
                after = operations.record(tx, begun, self.worker, self.lease_seconds, begins_step=begins)
            else:
                kept = self._without_secrets(transition.after)
                after = operations.record(tx, kept, None, transition.pause_seconds, begins_step=begins)
            event = None if transition.event is None else _event(before, transition)
            if event is not None:
                operations.insert_event(tx, event)
        if event is not None:
            self.observe(before, after, event)
        return after if keeps else None

    def _is_durable(self, transition: Transition, changes: Changes | None) -> bool:
        """Tell whether a power cut must not take a transition back.

        A step in between needs no flush: what is taken from the history is done again, as after any crash. But others
        decide by the rows that a step changed, and the next step may remove from the host what they named. After an
        undo no step may go on as if nothing had been undone, and no undo may follow one of an earlier step. A database
        on another host may be cut off while workers live, whose fences it must not forget.
        """
        is_forward = transition.after.status is OperationStatus.RUNNING
        return self.store.is_postgresql or changes is not None or transition.durable or not is_forward

    def _without_secrets(self, after: Operation) -> Operation:
        """Return an operation as its history keeps it: once it is over, without the secrets that it needed."""
        secrets = [name for name in self.procedures[after.procedure].secrets if name in after.state]
        if after.status not in _OVER or not secrets:
            return after
        return replace(after, state=after.state | dict.fromkeys(secrets))

    def _call_endings(self, tx: sa.Connection, before: Operation, after: Operation) -> None:
        procedure, error = self.procedures[before.procedure], after.error or ""
        work = _work(before, procedure)
        gives_up = after.status in (OperationStatus.UNDOING, OperationStatus.FAILED)
        if gives_up and before.status is OperationStatus.RUNNING and procedure.on_undoing is not None:
            with contextlib.suppress(StateUnreadable):
                procedure.on_undoing(tx, work, error)
        if after.status is OperationStatus.FAILED and procedure.on_failed is not None:
            with contextlib.suppress(StateUnreadable):
                procedure.on_failed(tx, work, error)


def _work(operation: Operation, procedure: Procedure) -> Work[Any]:
    state: Any
    try:
        state = msgspec.convert(operation.state, procedure.state)
    except msgspec.ValidationError as error:
        state = _Unreadable(f"The stored state of operation {operation.id} cannot be read: {error}")
    return Work(
        operation_id=operation.id,
        subject=operation.subject,
        step=operation.step,
        state=state,
        attempt=operation.attempt,
        created_at=operation.created_at,
        step_started_at=datetime.fromtimestamp(operation.step_started_here_at, UTC),
    )


def _event(before: Operation, transition: Transition) -> Event:
    seconds = max(0.0, time.time() - before.step_started_here_at)
    error = None if transition.error is None else transition.error[:ERROR_LIMIT]
    return Event(before.id, before.step, transition.event or "", datetime.now(UTC), seconds, error)
