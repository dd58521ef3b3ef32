"""The parts of a procedure.

A step has one effect and may run again at any time: it checks what is there, then acts. Its outcome and the rows that
it changes are one transaction. `transitions`, `runner` and `worker` decide when a step runs, and what a failure leads
to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa

from ramet.errors import Failed

Changes = Callable[[sa.Connection], None]
State = TypeVar("State", bound=msgspec.Struct, covariant=True)


class NoState(msgspec.Struct, frozen=True):
    """The state of a procedure that has to remember nothing."""


class StateUnreadable(Failed):
    """What is stored of an operation does not have the form that this release expects."""


@dataclass(frozen=True)
class Work(Generic[State]):
    """What a step sees of its operation. `attempt` is 1 at the first attempt; `subject` is the id of the service.

    `step_started_at` is by the clock of this process, whichever process began the step.
    """

    operation_id: str
    subject: str
    step: str
    state: State
    attempt: int
    created_at: datetime
    step_started_at: datetime


@dataclass(frozen=True)
class Next:
    """Continue with `step`, and with `state` if it has changed; `changes` are committed with it.

    `durable`: a power cut must not take the operation back to before `step`, because that does, or lets others do, what
    an earlier step could not go on from. With `changes` it is durable in any case.
    `early`: for some milliseconds its changes may be read before they are on disk, for nobody relies on them then.
    """

    step: str
    state: msgspec.Struct | None = None
    changes: Changes | None = None
    durable: bool = False
    early: bool = False


@dataclass(frozen=True)
class Wait:
    """Run the same step again after `seconds`; 0 means at once.

    When `progress` stays the same for the procedure's deadline, but for a warning in it, the operation is undone.
    """

    seconds: float
    progress: str = ""


@dataclass(frozen=True)
class Done:
    """The operation succeeded; its history shows the `warning`, too."""

    state: msgspec.Struct | None = None
    changes: Changes | None = None
    warning: str | None = None


Outcome = Next | Wait | Done
Step = Callable[[Work[Any]], Outcome]
Undo = Callable[[Work[Any]], None]
Ending = Callable[[sa.Connection, Work[Any], str], None]


@dataclass(frozen=True)
class Procedure:
    """Named steps, and the undo of those that leave something behind.

    The state of its operations is decoded as `state` for each step; its fields `secrets` are emptied when the operation
    ends. `on_undoing` runs in the transaction that turns the operation from RUNNING to UNDOING, `on_failed` in the one
    that marks it FAILED, after the last undo; both get the error that led there. When the stored state cannot be
    decoded, an undo that reads it is skipped, and so is the rest of an ending. The other fields are explained in
    `ramet.model.procedures.Spec`.
    """

    name: str
    steps: Mapping[str, Step]
    undo: Mapping[str, Undo] = field(default_factory=dict)
    state: type[msgspec.Struct] = NoState
    secrets: tuple[str, ...] = ()
    on_undoing: Ending | None = None
    on_failed: Ending | None = None
    deadline_seconds: float = 600.0
    background: bool = False
    is_low_priority: bool = False
