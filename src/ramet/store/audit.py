"""Rows of the audit. Entries are added, and removed from the old end; nothing changes one."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from ramet.model.audit import FIRST_LINK, Entry, EntryFilter
from ramet.store.rows import values_of
from ramet.store.tables import audit_entry

_LOCK = 7203451981
_BATCH = 1000
_HEAD = sa.select(audit_entry.c.sequence, audit_entry.c.link).order_by(audit_entry.c.sequence.desc()).limit(1)
_INSERT = audit_entry.insert()


def append(tx: sa.Connection, make: Callable[[int, str], Entry]) -> Entry:
    """Add the entry that `make` returns for its sequence number and the link before it.

    No other process appends before the transaction ends. Call it last: whoever waits here already has other locks.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    head = tx.execute(_HEAD).one_or_none()
    entry = make(1, FIRST_LINK) if head is None else make(head.sequence + 1, head.link)
    row = {name: getattr(entry, name) for name in entry.__struct_fields__}
    tx.execute(_INSERT, row | {"actor": msgspec.to_builtins(entry.actor), "fields": entry.fields or None})
    return entry


def head(tx: sa.Connection) -> tuple[int, str]:
    """Return sequence number and link of the newest entry."""
    found = tx.execute(_HEAD).one_or_none()
    return (0, FIRST_LINK) if found is None else (found.sequence, found.link)


def list_entries(tx: sa.Connection, wanted: EntryFilter, limit: int, before: int | None = None) -> list[Entry]:
    """Return up to `limit` entries, newest first, of those with numbers below `before`."""
    query = audit_entry.select().where(*_conditions(wanted))
    if before is not None:
        query = query.where(audit_entry.c.sequence < before)
    return [_entry(row) for row in tx.execute(query.order_by(audit_entry.c.sequence.desc()).limit(limit))]


def walk(tx: sa.Connection, wanted: EntryFilter | None = None) -> Iterator[Entry]:
    """Yield the entries, oldest first."""
    after = -1
    while True:
        query = audit_entry.select().where(audit_entry.c.sequence > after, *_conditions(wanted or EntryFilter()))
        rows = tx.execute(query.order_by(audit_entry.c.sequence).limit(_BATCH)).all()
        yield from map(_entry, rows)
        if len(rows) < _BATCH:
            return
        after = rows[-1].sequence


def last_before(tx: sa.Connection, before: datetime, most: int) -> Entry | None:
    """Return the newest of the `most` oldest entries, if these are all from before a time, or of those that are."""
    oldest = audit_entry.select().order_by(audit_entry.c.sequence).limit(most)
    found = None
    for row in tx.execute(oldest):
        if row.at >= before:
            break
        found = row
    return None if found is None else _entry(found)


def remove_until(tx: sa.Connection, sequence: int) -> int:
    """Remove the oldest entries up to a number; return how many. The caller has appended an entry that says so."""
    return int(tx.execute(audit_entry.delete().where(audit_entry.c.sequence <= sequence)).rowcount)


def _conditions(wanted: EntryFilter) -> list[sa.ColumnElement[bool]]:
    columns, conditions = audit_entry.c, []
    for name in ("project_id", "verb", "subject", "outcome", "request_id"):
        if (value := getattr(wanted, name)) is not None:
            conditions.append(columns[name] == value)
    if wanted.actor is not None:
        names = [columns.actor[name].as_string() == wanted.actor for name in ("id", "name", "kind")]
        conditions.append(sa.or_(*names))
    if wanted.since is not None:
        conditions.append(columns.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(columns.at < wanted.until)
    return conditions


def _entry(row: sa.Row[Any]) -> Entry:
    values = values_of(row)
    return msgspec.convert(values | {"fields": values["fields"] or {}}, Entry)
