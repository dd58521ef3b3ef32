"""The findings of a report: what was found in a source, what it means for an import, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ramet.errors import Invalid

_SHOWN_REFUSALS = 10


class Effect(StrEnum):
    """What a finding means for an import: it cannot be done, something will be different, or it is good to know."""

    REFUSED = "REFUSED"
    CHANGED = "CHANGED"
    NOTED = "NOTED"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what it is about, what was found, and what to do."""

    effect: Effect
    subject: str
    message: str
    remedy: str = ""


def refused(subject: str, message: str, remedy: str) -> Finding:
    """Return a finding because of which a source is refused."""
    return Finding(Effect.REFUSED, subject, message, remedy)


def in_order(found: list[Finding]) -> list[Finding]:
    """Return findings with the refusals first."""
    return sorted(found, key=lambda one: list(Effect).index(one.effect))


def refusals(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings because of which a source is refused."""
    return [one for one in findings if one.effect is Effect.REFUSED]


def refuse(findings: Sequence[Finding], code: str, message: str) -> None:
    """Raise Invalid with what speaks against it, where a finding does."""
    found = refusals(findings)
    if found:
        lines = [f"{one.subject}: {one.message}. {one.remedy}" for one in found[:_SHOWN_REFUSALS]]
        raise Invalid(code, f"{message}: {found[0].message}", "\n".join(lines))
