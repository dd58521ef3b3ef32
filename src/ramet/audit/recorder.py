"""Records acts in the transactions that they make: called by the store right before each commit.

A request has one entry, in the first transaction that it commits; a command on the host has one in each. A duty of
Ramet has one for each operation that it submits, but for routine work, which the history of operations has.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa
from msgspec.structs import replace

from ramet import acting
from ramet.acting import Act, Fields
from ramet.model.audit import Entry, link_of
from ramet.model.procedures import SPECS
from ramet.redaction import shown_text
from ramet.store import audit
from ramet.store.history import project_of
from ramet.store.journal import Journal


@dataclass(frozen=True)
class AuditRecorder:
    """Adds entries to the audit; `key` is that of the chain."""

    key: bytes = field(repr=False)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def record(self, tx: sa.Connection, journal: Journal) -> None:
        """Record what the current act has changed in a transaction that is about to be committed."""
        act = acting.current()
        if act is None:
            return
        if act.via == "duty":
            self._record_submissions(tx, act, journal)
        elif act.verb and (act.recorded != act.outcome or act.via == "host"):
            self._append(tx, self._entry(act, journal))
            journal.after_commit.append(partial(setattr, act, "recorded", act.outcome))

    def append_note(self, tx: sa.Connection, act: Act) -> Entry:
        """Add an entry for an act that has no transaction of its own to be recorded in."""
        return self._append(tx, self._entry(act, Journal()))

    def _record_submissions(self, tx: sa.Connection, act: Act, journal: Journal) -> None:
        for submitted in journal.submitted:
            if not SPECS[submitted.procedure].background:
                entry = self._entry(act, Journal(submitted=[submitted]))
                project_id = project_of(tx, submitted.subject)
                self._append(tx, replace(entry, verb=submitted.procedure, project_id=project_id))

    def _append(self, tx: sa.Connection, entry: Entry) -> Entry:
        def make(sequence: int, before: str) -> Entry:
            numbered = replace(entry, sequence=sequence)
            return replace(numbered, link=link_of(self.key, before, numbered))

        return audit.append(tx, make)

    def _entry(self, act: Act, journal: Journal) -> Entry:
        submitted = journal.submitted[0] if journal.submitted else None
        new = [service_id for service_id, columns in journal.changed if "created_at" in columns]
        subject = act.subject or next(iter(new), None) or (submitted.subject if submitted else None)
        return Entry(
            sequence=0,
            at=self.clock(),
            project_id=act.project_id,
            actor=act.actor,
            via=act.via,
            address=_text(act.address),
            verb=shown_text(act.verb),
            subject=_text(subject),
            fields=_with_new(act.fields, new, subject),
            outcome=act.outcome,
            code=act.code,
            operation_id=submitted.operation_id if submitted else None,
            request_id=_text(act.request_id),
        )


def _with_new(fields: Fields, new: list[str], subject: str | None) -> Fields:
    """Return the fields of an act with the services that it has made, unless the only one is its subject."""
    others = [one for one in new if one != subject]
    return {**fields, "new_service_ids": others} if others else fields


def _text(value: str | None) -> str | None:
    return None if value is None else shown_text(value)
