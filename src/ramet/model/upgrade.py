"""Another major version of PostgreSQL for a service: what is compared before and after, and the report."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

_SHOWN_DIFFERENCES = 20
_SHOWN_CHARACTERS = 200


class Statement(Struct, frozen=True):
    """A statement that the service runs often, with $1, $2, … for its constants."""

    text: str
    calls: int


class StatementPlan(Struct, frozen=True):
    """How PostgreSQL would execute a statement: its nodes as lines, and its cost. `problem`: why that is unknown."""

    text: str
    lines: tuple[str, ...] = ()
    cost: float = 0.0
    problem: str | None = None


class Survey(Struct, frozen=True):
    """What a server holds: the rows of each table, as database.schema.table, and the plans of statements."""

    rows: dict[str, int]
    plans: tuple[StatementPlan, ...] = ()


class UpgradeExtension(Struct, frozen=True):
    """An extension of a database, and the version that the other installation has."""

    database: str
    name: str
    version: str
    new_version: str | None


class Refusal(Struct, frozen=True):
    """Why a service cannot be upgraded as it is, and what to do."""

    subject: str
    message: str
    remedy: str


class UpgradeFacts(Struct, frozen=True):
    """What was found in a serving server: its version and the one that it would get.

    `statements` are empty, and `statements_note` says why, where PostgreSQL does not count them.
    """

    from_version: str
    to_version: str
    extensions: tuple[UpgradeExtension, ...] = ()
    statements: tuple[Statement, ...] = ()
    statements_note: str | None = None
    refusals: tuple[Refusal, ...] = ()


def row_differences(before: Survey, after: Survey) -> list[dict[str, Any]]:
    """Return the tables whose rows differ; a table that is missing has None."""
    names = sorted({*before.rows, *after.rows})
    pairs = [(name, before.rows.get(name), after.rows.get(name)) for name in names]
    return [{"table": name, "before": old, "after": new} for name, old, new in pairs if old != new]


def compared(before: Survey, after: Survey) -> dict[str, Any]:
    """Return what the report says of two surveys."""
    differences = row_differences(before, after)
    return {
        "tables": len(before.rows),
        "rows": sum(before.rows.values()),
        "row_differences": differences[:_SHOWN_DIFFERENCES],
        "plans": _compared_plans(before.plans, after.plans),
    }


def _compared_plans(before: Sequence[StatementPlan], after: Sequence[StatementPlan]) -> list[dict[str, Any]]:
    by_text = {plan.text: plan for plan in after}
    return [_compared_plan(plan, by_text.get(plan.text)) for plan in before]


def _compared_plan(before: StatementPlan, after: StatementPlan | None) -> dict[str, Any]:
    problem = before.problem or ("It was not planned again." if after is None else after.problem)
    shown: dict[str, Any] = {"statement": " ".join(before.text.split())[:_SHOWN_CHARACTERS]}
    if problem is not None or after is None:
        return {**shown, "changed": None, "problem": problem}
    return {
        **shown,
        "changed": before.lines != after.lines,
        "before": list(before.lines),
        "after": list(after.lines),
        "cost_before": before.cost,
        "cost_after": after.cost,
    }
