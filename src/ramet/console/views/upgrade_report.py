"""The report of an upgrade as lines: what was compared, which plans changed, and the duration of each step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ramet.console.views.fork_report import StepShare, shares_of
from ramet.console.views.operation_steps import step_title
from ramet.model.procedures import ProcedureName
from ramet.model.words import counted
from ramet.upgrades.verbs import Upgrade

Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class PlanChange:
    """A statement that is executed in another way, or, with a `problem`, could not be planned."""

    statement: str
    before: Sequence[str]
    after: Sequence[str]
    problem: str


@dataclass(frozen=True)
class UpgradeView:
    """What a page shows of an upgrade: `faults` is what a user should look at, `facts` the rest."""

    faults: Lines
    facts: Lines
    plans: Sequence[PlanChange]
    shares: Sequence[StepShare]


def upgrade_view(found: Upgrade) -> UpgradeView:
    """Return an upgrade as lines."""
    report = found.report
    plans = [
        PlanChange(each["statement"], each.get("before", ()), each.get("after", ()), each.get("problem") or "")
        for each in report.get("plans") or ()
        if each["changed"] is not False
    ]
    seconds: dict[str, float] = report.get("seconds", {})
    shares = shares_of({step_title(ProcedureName.TRY_UPGRADE, step): took for step, took in seconds.items()})
    return UpgradeView(list(_faults(found)), list(_facts(report)), plans, shares)


def _faults(found: Upgrade) -> Iterable[tuple[str, str]]:
    if found.error is not None:
        yield "Failed", found.error
    for each in found.report.get("row_differences") or ():
        yield f"Rows of {each['table']} differ", f"{_rows(each['before'])} before, {_rows(each['after'])} after"
    for problem in found.report.get("problems") or ():
        yield "Not carried over", problem


def _facts(report: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if "rows" in report:
        yield "Rows", f"{report['rows']} in {counted(report['tables'], 'table')}, counted before and after"
    for one in report["extensions"]:
        versions = dict.fromkeys((one["version"], one["new_version"] or one["version"]))
        yield f"Extension {one['name']}", f"{' to '.join(versions)} in database {one['database']}"
    if report["statements_note"] is not None:
        yield "Plans", report["statements_note"]
    elif "plans" in report:
        changed = sum(1 for each in report["plans"] if each["changed"])
        yield "Plans", f"{counted(len(report['plans']), 'statement')} planned before and after, {changed} changed"
    if report.get("statistics") is not None:
        yield "ANALYZE", report["statistics"]


def _rows(count: int | None) -> str:
    return "no table" if count is None else counted(count, "row")
