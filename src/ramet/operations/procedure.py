"""What a procedure is made of, and how one is submitted and called off.

A step has one effect and may run again at any moment: it looks first, then acts. Its outcome and the rows it changes
are one transaction. What is run when, and what a failure leads to, is in `transitions`, `runner` and `worker`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.ids import new_id
from ramet.store import operations

Changes = Callable[[sa.Connection], None]


@dataclass(frozen=True)
class Work:
    """What a step sees of its operation. `attempt` is 1 at the first attempt; `subject` is the id of the service."""

    operation_id: str
    procedure: str
    subject: str
    step: str
    state: Mapping[str, Any]
    attempt: int
    created_at: datetime
    step_started_at: datetime


@dataclass(frozen=True)
class Next:
    """Go on to `step`, merging `state` (JSON) into the operation's; `changes` are committed with it."""

    step: str
    state: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes | None = None


@dataclass(frozen=True)
class Wait:
    """Run the same step again after `seconds`; 0 means at once.

    When `progress` stays the same for the procedure's deadline, the operation is undone.
    """

    seconds: float
    progress: str = ""


@dataclass(frozen=True)
class Done:
    """The operation succeeded."""

    state: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes | None = None


Outcome = Next | Wait | Done
Step = Callable[[Work], Outcome]
Undo = Callable[[Work], None]
Ending = Callable[[sa.Connection, Work, str], None]


@dataclass(frozen=True)
class Procedure:
    """Named steps, and the undo of those that leave something behind.

    `on_undoing` runs in the transaction that turns the operation from RUNNING to UNDOING, `on_failed` in the one that
    marks it FAILED, after the last undo; both get the error that led there. A `background` one begins when nothing
    else is due. An `unasked` one lets what clients wait for go first, for a minute at most.
    """

    name: str
    first: str
    steps: Mapping[str, Step]
    undo: Mapping[str, Undo] = field(default_factory=dict)
    on_undoing: Ending | None = None
    on_failed: Ending | None = None
    deadline_seconds: float = 600.0
    background: bool = False
    unasked: bool = False


def submit(tx: sa.Connection, procedure_name: str, first_step: str, subject: str, state: Mapping[str, Any]) -> str:
    """Record an operation in the caller's transaction and return its id. Wake the worker after the commit."""
    operation_id = new_id()
    operations.insert_operation(tx, operation_id, procedure_name, first_step, subject, dict(state))
    return operation_id


def request_cancel(tx: sa.Connection, operation_id: str) -> bool:
    """Call an operation off: at the end of its present step it is undone. False when it was not running any more.

    A step that ends the operation wins against it.
    """
    return operations.cancel(tx, operation_id)
