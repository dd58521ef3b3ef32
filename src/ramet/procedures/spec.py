"""Procedures made, and operations submitted, by the table in `ramet.model.procedures` and the types in `state`."""

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from ramet.model.procedures import SPECS, ProcedureName
from ramet.operations.procedure import Ending, Procedure, Step, Undo
from ramet.procedures.state import STATES
from ramet.store import operations


def procedure_of(
    name: ProcedureName,
    steps: Mapping[str, Step],
    undo: Mapping[str, Undo] | None = None,
    *,
    on_undoing: Ending | None = None,
    on_failed: Ending | None = None,
) -> Procedure:
    """Return a procedure with what the tables say of it."""
    spec = SPECS[name]
    return Procedure(
        name=name.value,
        steps=steps,
        undo=undo or {},
        state=STATES[name],
        on_undoing=on_undoing,
        on_failed=on_failed,
        deadline_seconds=spec.deadline_seconds,
        background=spec.background,
        is_low_priority=spec.is_low_priority,
    )


def steps_of(name: ProcedureName, methods: object) -> Mapping[str, Step]:
    """Return the steps of a procedure: the methods that have their names."""
    return {step: getattr(methods, step) for step in SPECS[name].steps}


def submit(tx: sa.Connection, name: ProcedureName, subject: str, state: msgspec.Struct) -> str:
    """Record an operation in the caller's transaction and return its id. Wake the worker after the commit."""
    if type(state) is not STATES[name]:
        raise AssertionError(f"BUG: the state of {name} is a {STATES[name].__name__}, not a {type(state).__name__}")
    return operations.submit(tx, name.value, SPECS[name].first_step, subject, msgspec.to_builtins(state))
