"""Operations submitted by the table in `ramet.model.procedures` and the types in `state`."""

import msgspec
import sqlalchemy as sa

from ramet.model.procedures import SPECS, ProcedureName
from ramet.procedures.state import STATES
from ramet.store import operations


def submit(
    tx: sa.Connection,
    name: ProcedureName,
    subject: str,
    state: msgspec.Struct,
    step: str = "",
    operation_id: str | None = None,
) -> str:
    """Record an operation in the caller's transaction and return its id. Wake the worker after the commit.

    It begins with `step`, by default with its first one. Its id is a new one, unless the caller has one already.
    """
    if type(state) is not STATES[name]:
        raise AssertionError(f"BUG: the state of {name} is a {STATES[name].__name__}, not a {type(state).__name__}")
    first, values = step or SPECS[name].first_step, msgspec.to_builtins(state)
    return operations.submit(tx, name.value, first, subject, values, operation_id)
