"""Entries of the audit, and the chain that they are links of.

Each link is a keyed digest of its entry and of the link before. Who can write the store, but has not the key, can
neither change an entry nor remove one from the middle without a link that does not fit.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from ramet.acting import Actor

FIRST_LINK = "0" * 64
REMOVAL = "removeOldAuditEntries"
"""The verb of the entry that says which entries were removed because they were old."""


class Entry(Struct, frozen=True, kw_only=True):
    """Who did what, when, from where, and how it ended. `link` is the entry's place in the chain.

    `project_id` is None for what concerns the whole installation, and `subject` for what concerns no service, snapshot
    or read replica set. `code` is that of the error; `fields` contains no secrets.
    """

    sequence: int
    at: datetime
    project_id: str | None
    actor: Actor
    via: str
    address: str | None
    verb: str
    subject: str | None
    fields: Mapping[str, object]
    outcome: str
    code: str | None
    operation_id: str | None
    request_id: str | None
    link: str = ""


@dataclass(frozen=True)
class EntryFilter:
    """Which entries are wanted; None: whatever they have there."""

    project_id: str | None = None
    actor: str | None = None
    verb: str | None = None
    subject: str | None = None
    outcome: str | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def chain_key(root_key: bytes) -> bytes:
    """Return the key of the chain of an installation."""
    return hmac.digest(root_key, b"audit chain", "sha256")


def link_of(key: bytes, before: str, entry: Entry) -> str:
    """Return the link of an entry that follows the link `before`."""
    content = msgspec.to_builtins(entry) | {"link": before, "at": entry.at.astimezone(UTC).isoformat()}
    return hmac.digest(key, msgspec.json.encode(content, order="sorted"), "sha256").hex()
