"""Checking the chain of the audit: each link must fit its entry and the link before it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ramet.audit.anchor import Anchor
from ramet.model.audit import FIRST_LINK, REMOVAL, Entry, link_of

_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Verification:
    """What was found: the number of entries, the newest one's number and link, and each thing that does not fit.

    `anchors` counts the entries that were compared with what was noted outside of the store.
    """

    entries: int
    first: int
    last: int
    link: str
    anchors: int
    problems: list[str] = field(default_factory=list)


def verify(entries: Iterable[Entry], key: bytes, anchors: Iterable[Anchor] = ()) -> Verification:
    """Check entries, given oldest first, and that the chain still has those that were noted outside of the store."""
    problems: list[str] = []
    noted = {anchor.sequence: anchor for anchor in anchors}
    noted_count = len(noted)
    before: Entry | None = None
    first: Entry | None = None
    removal: Entry | None = None
    count = 0
    for entry in entries:
        first, count = first or entry, count + 1
        problems += _problems_of(entry, before, key)
        anchor = noted.pop(entry.sequence, None)
        if anchor is not None and anchor.link != entry.link:
            problems.append(f"Entry {entry.sequence} is another one than Ramet noted outside of the store.")
        if entry.verb == REMOVAL:
            removal = entry
        before = entry
    problems += _problems_of_start(first, removal, key)
    last = 0 if before is None else before.sequence
    problems += [
        f"Entry {sequence}, which Ramet noted outside of the store, is missing at the end."
        for sequence in sorted(noted)
        if sequence > last
    ]
    return Verification(
        count,
        0 if first is None else first.sequence,
        last,
        before.link if before else FIRST_LINK,
        noted_count - len(noted),
        problems[:_MOST_PROBLEMS],
    )


def _problems_of(entry: Entry, before: Entry | None, key: bytes) -> list[str]:
    if before is None:
        return []
    if entry.sequence != before.sequence + 1:
        return [f"Entries are missing between {before.sequence} and {entry.sequence}."]
    if link_of(key, before.link, entry) != entry.link:
        return [f"Entry {entry.sequence} was changed, or was not written by Ramet: its link does not fit."]
    return []


def _problems_of_start(first: Entry | None, removal: Entry | None, key: bytes) -> list[str]:
    """Check the first entry that is left: it follows nothing, or what the newest removal of old entries says."""
    if first is None:
        return []
    until, link = 0, FIRST_LINK
    if removal is not None:
        until, link = int(str(removal.fields.get("until", 0))), str(removal.fields.get("link", ""))
    if first.sequence != until + 1:
        return [f"Entries before {first.sequence} are missing, and no removal of old entries says so."]
    if link_of(key, link, first) != first.link:
        return [f"Entry {first.sequence} was changed, or was not written by Ramet: its link does not fit."]
    return []
