"""Reading the audit of a project, and removing what is older than it is kept."""

from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from ramet.acting import Act, Actor
from ramet.audit.recorder import AuditRecorder
from ramet.control.plane import Plane
from ramet.model.audit import REMOVAL, Entry, EntryFilter
from ramet.model.cursor import PAGE, Page, check_limit, decode_cursor, encode_cursor, page_of, sequence_number
from ramet.model.timestamps import parse_timestamp
from ramet.store import audit
from ramet.store.batches import remove_in_batches
from ramet.store.database import Store


def filter_of(*, since: str | None = None, until: str | None = None, **same: str | None) -> EntryFilter:
    """Return a filter from what clients send. Raises Invalid for times that are none."""
    begin = None if since is None else parse_timestamp("since", since)
    end = None if until is None else parse_timestamp("until", until)
    return EntryFilter(**same, since=begin, until=end)


def list_audit(
    plane: Plane, project_id: str, wanted: EntryFilter, limit: int = PAGE, cursor: str | None = None
) -> Page[Entry]:
    """Return entries of a project, newest first. Raises Invalid."""
    check_limit(limit)
    before = None if cursor is None else decode_cursor(cursor, sequence_number)
    with plane.store.read(settled=True) as tx:
        found = audit.list_entries(tx, replace(wanted, project_id=project_id), limit + 1, before)
    return page_of(found, limit, lambda one: encode_cursor(str(one.sequence)))


def remove_old_entries(store: Store, recorder: AuditRecorder, now: datetime, kept: timedelta) -> int:
    """Remove entries that are older than `kept`, and return how many; for each batch an entry says which ones.

    The chain can still be verified: its first entry must follow the link that the newest such entry names.
    """

    def remove(tx: sa.Connection, most: int) -> int:
        last = audit.last_before(tx, now - kept, most)
        if last is None:
            return 0
        fields = {"until": last.sequence, "link": last.link}
        recorder.append_note(tx, Act(Actor("ramet", "duty audit"), "duty", verb=REMOVAL, fields=fields))
        return audit.remove_until(tx, last.sequence)

    return remove_in_batches(store, remove)
