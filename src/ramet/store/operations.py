"""Rows of operations and of their events; `ramet.operations` gives them their meaning.

Which of them are due is in `due`. When the store's clock steps back, a lease is shortened to its original length
(`cut_leases`).
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

from ramet import acting
from ramet.acting import Actor
from ramet.ids import new_id
from ramet.model.operation_record import Event
from ramet.model.procedures import ProcedureName
from ramet.model.status import OperationStatus
from ramet.store.database import epoch_seconds
from ramet.store.due import DUE_SINCE, NOW, STEPPED_BACK, UNDER_WAY, Known
from ramet.store.journal import Ended, Submitted, journal_of
from ramet.store.rows import columns_of, values_of
from ramet.store.tables import hold, operation, operation_event, replica_set, service
from ramet.telemetry import TRACE_KEY, trace_parent

CHANNEL = "ramet_operation"


class LeaseLost(Exception):
    """Another worker has leased the operation since: nothing that this one did may be recorded."""


@dataclass(frozen=True)
class Operation:
    """A row. `attempt` counts the attempts at the step that have begun, the running one included.

    `done_steps` are those before `step`; of an operation that is being undone, those still to be undone after `step`.
    `idle_seconds` is how long it has waited without progress; a clock that steps does not lengthen it.
    `step_started_at` is in seconds since the epoch by the store's clock, from which that of this process may differ:
    `clock_ahead_seconds` is by how much it did when the operation was last leased or recorded here.
    """

    id: str
    procedure: str
    subject: str
    step: str
    status: OperationStatus
    state: dict[str, Any]
    done_steps: tuple[str, ...]
    attempt: int
    cancelled: bool
    fence: int
    progress: str
    idle_seconds: float
    step_started_at: float
    error: str | None
    created_at: datetime
    finished_at: datetime | None = None
    actor: Actor | None = None
    clock_ahead_seconds: float = field(default=0.0, compare=False)

    @property
    def step_started_here_at(self) -> float:
        """When the step began by the clock of this process, which is the one that it can compare it with."""
        return self.step_started_at + self.clock_ahead_seconds


# Statements that each step runs are built once: building one takes longer than running it.
_LEASE = (
    operation.update()
    .where(operation.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(
        worker=sa.bindparam("leased_by"),
        run_at=sa.bindparam("until"),
        run_set_at=NOW,
        fence=operation.c.fence + 1,
        attempt=operation.c.attempt + 1,
        started=True,
        idle_seconds=sa.case((operation.c.worker.is_not(None), 0.0), else_=operation.c.idle_seconds),
    )
    .returning(*operation.c)
)
_RECORD = (
    operation.update()
    .where(operation.c.id == sa.bindparam("same_id"), operation.c.fence == sa.bindparam("same_fence"), UNDER_WAY)
    .values(fence=operation.c.fence + 1, run_set_at=NOW)
)
_KEEP = _RECORD.values(run_at=sa.bindparam("due_at")).returning(operation.c.cancelled)
# One that was canceled during its step is undone at once. An undo that is tried again waits as long as any other.
_is_to_be_undone = operation.c.cancelled & (operation.c.status == OperationStatus.RUNNING.value)
_RELEASE = _RECORD.values(run_at=sa.case((_is_to_be_undone, NOW), else_=sa.bindparam("due_at"))).returning(
    operation.c.cancelled
)


def submit(
    tx: sa.Connection,
    procedure: str,
    step: str,
    subject: str,
    state: Mapping[str, Any],
    operation_id: str | None = None,
) -> str:
    """Add an operation that is due at once, and return its id; workers of other processes on PostgreSQL are notified.

    Wake the own worker after the commit.
    """
    operation_id, now, actor = operation_id or new_id(), epoch_seconds(tx), acting.actor()
    tx.execute(
        operation.insert(),
        {
            "id": operation_id,
            "procedure": procedure,
            "subject": subject,
            "step": step,
            "status": OperationStatus.RUNNING.value,
            "state": {**state, TRACE_KEY: parent} if (parent := trace_parent.get()) else state,
            "run_at": now,
            "run_set_at": now,
            "step_started_at": now,
            "created_at": datetime.now(UTC),
            "actor": None if actor is None else msgspec.to_builtins(actor),
        },
    )
    journal_of(tx).submitted.append(Submitted(operation_id, procedure, subject))
    _notify(tx)
    return operation_id


def get(tx: sa.Connection, operation_id: str) -> Operation | None:
    """Return an operation, or None."""
    row = tx.execute(operation.select().where(operation.c.id == operation_id)).one_or_none()
    return None if row is None else _operation(row)


def of_subject(tx: sa.Connection, subject: str, procedure: str = "", most: int | None = None) -> list[Operation]:
    """Return up to `most` operations on a subject, of one procedure if it is named, newest first."""
    wanted = (operation.c.subject == subject) & (operation.c.procedure == procedure if procedure else sa.true())
    query = operation.select().where(wanted).order_by(operation.c.created_at.desc(), operation.c.id)
    return [_operation(row) for row in tx.execute(query.limit(most))]


def is_under_way(tx: sa.Connection, operation_id: str) -> bool:
    """Tell whether an operation is neither succeeded nor failed."""
    return tx.scalar(sa.select(operation.c.id).where(operation.c.id == operation_id, UNDER_WAY)) is not None


def under_way(tx: sa.Connection, subject: str, procedure: str) -> bool:
    """Tell whether an operation of that procedure on that subject is neither succeeded nor failed."""
    return _has_one(tx, subject, procedure, UNDER_WAY)


def is_running(tx: sa.Connection, subject: str, procedure: str) -> bool:
    """Tell whether an operation of that procedure on that subject is under way and not being undone."""
    return _has_one(tx, subject, procedure, operation.c.status == OperationStatus.RUNNING.value)


def _has_one(tx: sa.Connection, subject: str, procedure: str, condition: sa.ColumnElement[bool]) -> bool:
    same = (operation.c.subject == subject) & (operation.c.procedure == procedure)
    return tx.execute(sa.select(operation.c.id).where(same, condition).limit(1)).one_or_none() is not None


def cancel(tx: sa.Connection, operation_id: str, subject: str | None = None) -> bool:
    """Cancel a running operation: it is undone when its present step has ended. False when it is not running.

    If that step ends the operation, it succeeds. With `subject` one that is about something else goes on.
    """
    running = (operation.c.id == operation_id) & (operation.c.status == OperationStatus.RUNNING.value)
    if subject is not None:
        running &= operation.c.subject == subject
    due = sa.case((operation.c.worker.is_(None), epoch_seconds(tx)), else_=operation.c.run_at)
    marked = tx.execute(operation.update().where(running).values(cancelled=True, run_at=due)).rowcount == 1
    _notify(tx)
    return marked


def under_way_of(tx: sa.Connection, subject: str, procedure: str) -> list[Operation]:
    """Return the operations of that procedure on that subject that are neither succeeded nor failed, oldest first."""
    same = (operation.c.subject == subject) & (operation.c.procedure == procedure) & UNDER_WAY
    rows = tx.execute(operation.select().where(same)).all()  # in order, SQLite would read those that are over as well
    return [_operation(row) for row in sorted(rows, key=attrgetter("created_at", "id"))]


def progress_in(tx: sa.Connection, project_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return how far the operations under way in a project are: procedure, step, attempt and so on.

    They are grouped by service; those on its read replica sets are included.
    """
    owner, own_project = (
        sa.func.coalesce(service.c[here], replica_set.c[there])
        for here, there in (("id", "service_id"), ("project_id", "project_id"))
    )
    columns = (operation.c.procedure, operation.c.step, operation.c.status, operation.c.attempt, operation.c.progress)
    about = operation.outerjoin(service, service.c.id == operation.c.subject)
    about = about.outerjoin(replica_set, replica_set.c.id == operation.c.subject)
    query = sa.select(owner.label("owner"), operation.c.id.label("operation_id"), *columns).select_from(about)
    query = query.where(UNDER_WAY, own_project == project_id)
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in sorted(tx.execute(query).all(), key=itemgetter(1)):
        found.setdefault(row.owner, []).append(tuple(row))
    return found


def durations_of_forks(tx: sa.Connection, state: dict[str, Any], project_id: str, limit: int) -> list[float]:
    """Return the seconds that a project's last succeeded forks took whose operation's state has these values."""
    of_fork = operation.c.procedure == ProcedureName.FORK.value
    succeeded = operation.c.status == OperationStatus.SUCCEEDED.value
    query = (
        sa.select(operation.c.created_at, operation.c.finished_at, operation.c.state)
        .select_from(service.join(operation, operation.c.subject == service.c.id))
        .where(service.c.project_id == project_id, of_fork, succeeded)
        .order_by(service.c.created_at.desc())
        .limit(limit)
    )
    return [
        (row.finished_at - row.created_at).total_seconds()
        for row in tx.execute(query)
        if state.items() <= row.state.items()
    ]


def is_busy(tx: sa.Connection, procedures: Collection[str] | None = None) -> bool:
    """Tell whether any operation, or any of these procedures, runs or is being undone.

    A snapshot that holds no service any more does not count: it waits for storage, perhaps for hours.
    """
    holds = operation.c.id.in_(sa.select(hold.c.operation_id))
    query = sa.select(operation.c.id).where(UNDER_WAY, holds | (operation.c.procedure != ProcedureName.SNAPSHOT))
    if procedures is not None:
        query = query.where(operation.c.procedure.in_(procedures))
    return tx.execute(query.limit(1)).one_or_none() is not None


def seconds_until_due(tx: sa.Connection, known: Known) -> float | None:
    """Return how long it is until the next operation is due (0 or less: one is); None when there is none."""
    now = epoch_seconds(tx)
    due_at = tx.scalar(known.first_due, {"now": now})
    return None if due_at is None else due_at - now


def lease(
    tx: sa.Connection,
    worker: str,
    known: Known,
    seconds: float,
    limit: int,
    held: Collection[str] = (),
    long_limit: int | None = None,
) -> list[Operation]:
    """Lease up to `limit` due operations to a worker for so many seconds, those that can wait last.

    At most `long_limit` of them are at a long step. `held` are operations that the worker still runs, even if their
    leases have expired: they are not leased. The deadline of an operation whose worker was lost starts again.
    """
    now = epoch_seconds(tx)
    ahead = time.time() - now
    many_long = {"many_long": limit if long_limit is None else long_limit} if known.long else {}
    ids = tx.scalars(known.due, {"now": now, "many": limit, "held": list(held), **many_long}).all()
    if not ids:
        return []
    return [
        replace(_operation(row), clock_ahead_seconds=ahead)
        for row in tx.execute(_LEASE, {"ids": ids, "leased_by": worker, "until": now + seconds, "now": now})
    ]


def renew(tx: sa.Connection, worker: str, held: Collection[str], seconds: float) -> None:
    """Extend the leases that a worker still has of the operations `held`."""
    mine = operation.c.id.in_(held) & (operation.c.worker == worker)
    now = epoch_seconds(tx)
    tx.execute(operation.update().where(mine, UNDER_WAY).values(run_at=now + seconds, run_set_at=now))


def release(tx: sa.Connection, worker: str, ids: Collection[str]) -> None:
    """Make due what a worker has leased and could not record; it does not count as an attempt at the step."""
    now = epoch_seconds(tx)
    mine = operation.c.id.in_(ids) & (operation.c.worker == worker)
    attempt = sa.case((operation.c.attempt > 0, operation.c.attempt - 1), else_=0)
    tx.execute(operation.update().where(mine, UNDER_WAY).values(run_at=now, run_set_at=now, attempt=attempt))


def cut_leases(tx: sa.Connection) -> None:
    """Let leases that begin later than now, because the clock has stepped back, begin now.

    A live worker renews its lease before it ends; a lost worker's ends as it would have without the step.
    """
    now = {"now": epoch_seconds(tx)}
    given_later = UNDER_WAY & operation.c.worker.is_not(None) & STEPPED_BACK
    if tx.scalar(sa.select(operation.c.id).where(given_later).limit(1), now) is not None:
        length = operation.c.run_at - operation.c.run_set_at
        values = {"run_at": NOW + length, "run_set_at": NOW}
        tx.execute(operation.update().where(given_later).values(values), now)


def end_leases(tx: sa.Connection, workers: str) -> int:
    """Make due what workers whose names begin with `workers` have leased; return the number of operations."""
    theirs = operation.c.worker.startswith(workers, autoescape=True)
    now = epoch_seconds(tx)
    ended = tx.execute(operation.update().where(UNDER_WAY, theirs).values(run_at=now, run_set_at=now))
    return int(ended.rowcount)


def record(
    tx: sa.Connection, after: Operation, worker: str | None, due_in_seconds: float, *, begins_step: bool = False
) -> Operation:
    """Record a transition of an operation, and return it with its new fence. Raises LeaseLost.

    `worker` keeps the lease for `due_in_seconds`; None ends it, and the operation is due in so many seconds.
    `begins_step`: its step begins now.
    The fence increases with each record, so that one whose commit was not acknowledged cannot be written twice.
    """
    now = epoch_seconds(tx)
    ahead = time.time() - now
    if begins_step:
        after = replace(after, step_started_at=now)
    is_over = after.status in (OperationStatus.SUCCEEDED, OperationStatus.FAILED)
    values = {
        "same_id": after.id,
        "same_fence": after.fence,
        "now": now,
        "due_at": now + due_in_seconds,
        **columns_of(after, "step status state done_steps attempt progress idle_seconds step_started_at error"),
        "worker": worker,
        "finished_at": datetime.now(UTC) if is_over else None,
    }
    cancelled = tx.scalar(_RELEASE, values) if worker is None else tx.scalar(_KEEP, values)
    if cancelled is None:
        raise LeaseLost(f"operation {after.id}, step {after.step}")
    if is_over:
        error = after.error if after.status is OperationStatus.FAILED else None
        journal_of(tx).ended.append(Ended(after.id, after.procedure, after.subject, error))
    return replace(after, fence=after.fence + 1, cancelled=cancelled, clock_ahead_seconds=ahead)


def insert_event(tx: sa.Connection, event: Event) -> None:
    """Add an entry to an operation's history."""
    tx.execute(operation_event.insert(), asdict(event))


def events_of(tx: sa.Connection, operation_ids: Collection[str]) -> dict[str, tuple[Event, ...]]:
    """Return the history of each of these operations that has one, in its order."""
    found: dict[str, tuple[Event, ...]] = {}
    query = operation_event.select().where(operation_event.c.operation_id.in_(operation_ids))
    for row in tx.execute(query.order_by(operation_event.c.id)):
        event = msgspec.convert(values_of(row), Event)
        found[event.operation_id] = (*found.get(event.operation_id, ()), event)
    return found


def ends_of(tx: sa.Connection, subject: str, procedures: Collection[str]) -> list[tuple[str, datetime | None]]:
    """Return which of these procedures on a subject have succeeded and when, then those under way (None)."""
    own = (operation.c.subject == subject) & operation.c.procedure.in_(procedures)
    succeeded = operation.c.status == OperationStatus.SUCCEEDED.value
    query = sa.select(operation.c.procedure, operation.c.finished_at).where(own, succeeded | UNDER_WAY)
    query = query.order_by(operation.c.finished_at.is_(None), operation.c.finished_at)
    return [(procedure, at) for procedure, at in tx.execute(query)]


def last_costly(tx: sa.Connection, subject: str, procedure: str, step: str, least_seconds: float) -> Event | None:
    """Return the last time that a step of a procedure on a subject was done and took more than so many seconds."""
    same = (operation.c.subject == subject) & (operation.c.procedure == procedure)
    done = (operation_event.c.step == step) & (operation_event.c.outcome == "DONE")
    query = (
        operation_event.select()
        .where(operation_event.c.operation_id == operation.c.id, same, done, operation_event.c.seconds > least_seconds)
        .order_by(operation_event.c.at.desc())
        .limit(1)
    )
    row = tx.execute(query).one_or_none()
    return None if row is None else msgspec.convert(values_of(row), Event)


def last_failed(tx: sa.Connection, subject: str, procedure: str, kind: str, until: datetime) -> Operation | None:
    """Return the last operation of a procedure on a subject, with this `kind` in its state, that failed by a time."""
    same = (operation.c.subject == subject) & (operation.c.procedure == procedure)
    failed = same & (operation.c.status == OperationStatus.FAILED.value) & (operation.c.finished_at <= until)
    query = operation.select().where(failed, operation.c.state["kind"].as_string() == kind)
    row = tx.execute(query.order_by(operation.c.finished_at.desc()).limit(1)).one_or_none()
    return None if row is None else _operation(row)


def list_unknown(tx: sa.Connection, known: Known) -> list[Operation]:
    """Return the operations that are due and that a worker does not know how to run."""
    unknown = operation.select().where(UNDER_WAY, DUE_SINCE <= NOW, sa.not_(known.matches))
    return [_operation(row) for row in tx.execute(unknown, {"now": epoch_seconds(tx)})]


def _notify(tx: sa.Connection) -> None:
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})


def _operation(row: sa.Row[Any]) -> Operation:
    return msgspec.convert(values_of(row), Operation)
