"""A procedure whose effects can be counted: rows written with each step's outcome, and marks left outside the store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from ramet.model.status import OperationStatus
from ramet.operations.procedure import Changes, Done, Ending, Next, Outcome, Procedure, Step, Undo, Work
from ramet.store import operations
from ramet.store.database import Store
from ramet.store.operations import Operation, submit

effect = sa.Table(
    "effect",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("operation_id", sa.Text),
    sa.Column("step", sa.Text),
)
STEPS = ("one", "two", "three")


class Counts(msgspec.Struct, frozen=True):
    """At which attempt each step ended; `given` is what the operation was submitted with."""

    given: bool
    one: int | None = None
    two: int | None = None
    three: int | None = None


def make_table(store: Store) -> None:
    with store.write() as tx:
        effect.create(tx, checkfirst=True)


def writes(work: Work[Any], word: str = "") -> Changes:
    """Return the change that counts a step."""
    row = {"operation_id": work.operation_id, "step": word or work.step}
    return lambda tx: _insert(tx, row)


def _insert(tx: sa.Connection, row: dict[str, str]) -> None:
    tx.execute(effect.insert(), row)


def written(store: Store, operation_id: str) -> list[str]:
    """Return the steps that were counted for an operation, in their order."""
    with store.read() as tx:
        same = effect.c.operation_id == operation_id
        return list(tx.scalars(sa.select(effect.c.step).where(same).order_by(effect.c.id)))


@dataclass
class Host:
    """Where steps leave their marks, outside the store's transactions."""

    marks: list[tuple[str, str]] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)

    def mark(self, work: Work[Any]) -> None:
        if (work.operation_id, work.step) not in self.marks:
            self.marks.append((work.operation_id, work.step))

    def unmark(self, work: Work[Any]) -> None:
        self.undone.append(work.step)
        if (work.operation_id, work.step) in self.marks:
            self.marks.remove((work.operation_id, work.step))


def counting(
    host: Host,
    replaced: Mapping[str, Step] | None = None,
    undos: Mapping[str, Undo] | None = None,
    deadline: float = 600,
) -> Procedure:
    """Return a procedure of three steps that mark the host and count themselves; some steps may be replaced."""
    steps: dict[str, Step] = {step: _marking(host, following) for step, following in _followed(STEPS)}
    return Procedure(
        name="count",
        steps={**steps, **(replaced or {})},
        undo={**dict.fromkeys(STEPS, host.unmark), **(undos or {})},
        state=Counts,
        on_undoing=_counting_end("undoing"),
        on_failed=_counting_end("failed"),
        deadline_seconds=deadline,
    )


def _marking(host: Host, following: str | None) -> Step:
    def run(work: Work[Any]) -> Outcome:
        host.mark(work)
        seen = replace(work.state, **{work.step: work.attempt})
        return Done(seen, writes(work)) if following is None else Next(following, seen, writes(work))

    return run


def _followed(steps: Sequence[str]) -> list[tuple[str, str | None]]:
    return list(zip(steps, (*steps[1:], None), strict=True))


def _counting_end(word: str) -> Ending:
    def run(tx: sa.Connection, work: Work[Any], error: str) -> None:
        writes(work, f"{word}: {error}")(tx)

    return run


def submitted(store: Store, wake: Callable[[], None] = lambda: None) -> str:
    with store.write() as tx:
        operation_id = submit(tx, "count", STEPS[0], "subject", {"given": True})
    wake()
    return operation_id


def found(store: Store, operation_id: str) -> Operation:
    with store.read() as tx:
        operation = operations.get(tx, operation_id)
    assert operation is not None
    return operation


def is_over(store: Store, operation_id: str) -> bool:
    return found(store, operation_id).status in (OperationStatus.SUCCEEDED, OperationStatus.FAILED)


def history(store: Store, operation_id: str) -> list[tuple[str, str]]:
    with store.read() as tx:
        return [(event.step, event.outcome) for event in operations.events_of(tx, [operation_id]).get(operation_id, ())]
