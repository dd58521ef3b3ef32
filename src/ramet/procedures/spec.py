"""Operations submitted by the table in `ramet.model.procedures` and the types in `state`."""

import msgspec
import sqlalchemy as sa

from ramet.model.procedures import SPECS, ProcedureName
from ramet.procedures.state import STATES
from ramet.store import operations


def submit(tx: sa.Connection, name: ProcedureName, subject: str, state: msgspec.Struct, step: str = "") -> str:
    """Record an operation in the caller's transaction and return its id. Wake the worker after the commit.

    It begins with `step`, by default with its first one.
    """
    if type(state) is not STATES[name]:
        raise AssertionError(f"BUG: the state of {name} is a {STATES[name].__name__}, not a {type(state).__name__}")
    return operations.submit(tx, name.value, step or SPECS[name].first_step, subject, msgspec.to_builtins(state))
