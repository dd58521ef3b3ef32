"""Which operations are due, and which of these run first.

The store's clock may step back. So `run_set_at` records when `run_at` was written: what waits is due as soon as the
clock is earlier than that.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from ramet.model.status import OperationStatus
from ramet.store.tables import hold, operation


def _literals(names: Collection[str]) -> list[sa.ColumnElement[str]]:
    """Return names in our code as a part of the statement: to send hundreds of parameters takes longer than to run it.

    SQLite uses a partial index only where the statement itself says that the index has all rows.
    """
    return [sa.literal_column(f"'{name}'") for name in names]


UNDER_WAY = operation.c.status.in_(_literals((OperationStatus.RUNNING.value, OperationStatus.UNDOING.value)))
NOW = sa.bindparam("now", type_=sa.Float)
STEPPED_BACK = operation.c.run_set_at > NOW
DUE_SINCE = sa.case((STEPPED_BACK & operation.c.worker.is_(None), NOW), else_=operation.c.run_at)
_LOW_PRIORITY_SECONDS = 60.0
_HELD_SECONDS = 1.0
_KEY = operation.c.procedure + "." + operation.c.step
_IS_RUNNING = operation.c.status == OperationStatus.RUNNING.value
_KEEPS_OTHERS = operation.c.id.in_(sa.select(hold.c.operation_id)) & (DUE_SINCE <= NOW - _HELD_SECONDS)


@dataclass(frozen=True)
class Known:
    """The 'procedure.step' that a worker can run, those that it can undo, and the procedures that can wait.

    One that can wait and holds a service waits for a second only: others may wait for it, which are due again and
    again. Those of `low_priority` let others run first for a while, unless somebody waits for them: for their end, or
    to copy from the service that they are about. Of the steps that are `long` only some run at once.
    """

    steps: frozenset[str]
    undos: frozenset[str]
    background: frozenset[str] = frozenset()
    low_priority: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()

    @cached_property
    def matches(self) -> sa.ColumnElement[bool]:
        """The condition for operations that the worker knows how to run."""
        running = _IS_RUNNING & _KEY.in_(_literals(sorted(self.steps)))
        undoing = (operation.c.status == OperationStatus.UNDOING.value) & _KEY.in_(_literals(sorted(self.undos)))
        return UNDER_WAY & (running | undoing)

    @cached_property
    def first_due(self) -> sa.Select[Any]:
        """Since when the first operation that the worker knows is due, or when it will be."""
        return sa.select(sa.func.min(DUE_SINCE)).where(self.matches)

    @cached_property
    def due(self) -> sa.Select[tuple[str]]:
        """At most `many` operations, none of them `held`, due at `now`: those that can wait last, longest due first.

        At most `many_long` of them are at a long step.
        """
        not_held = operation.c.id.not_in(sa.bindparam("held", expanding=True))
        can_wait = operation.c.procedure.in_(self.background) & sa.not_(_KEEPS_OTHERS)
        is_awaited = operation.c.cancelled | operation.c.subject.in_(sa.select(hold.c.service_id))
        can_be_late = operation.c.procedure.in_(self.low_priority) & sa.not_(is_awaited)
        turn = operation.c.run_at + sa.case((can_be_late, _LOW_PRIORITY_SECONDS), else_=0.0)
        ids = sa.select(operation.c.id).where(self.matches, DUE_SINCE <= NOW, not_held).order_by(can_wait, turn)
        if self.long:
            is_long = _IS_RUNNING & sa.not_(operation.c.cancelled) & _KEY.in_(_literals(sorted(self.long)))
            first = ids.where(is_long).limit(sa.bindparam("many_long"))
            ids = ids.where(sa.not_(is_long) | operation.c.id.in_(first))
        return ids.limit(sa.bindparam("many")).with_for_update(skip_locked=True)
