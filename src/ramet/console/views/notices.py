"""Notices: events in one sentence each, with how serious they are, and what ends soon."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from ramet.model.events import Event, EventType
from ramet.model.keys import ApiKey
from ramet.model.procedures import SPECS

_KEYS_BEFORE = timedelta(days=7)
_AUTHORITY_BEFORE = timedelta(days=90)
_SENTENCES: Mapping[EventType, tuple[str, str]] = {
    EventType.SERVICE_READY: ("ok", "{service} is READY"),
    EventType.SERVICE_FAILED: ("bad", "{service} could not be created"),
    EventType.SERVICE_EXPIRING: ("warn", "{service} expires soon"),
    EventType.SERVICE_DOWN: ("bad", "The server of {service} is down"),
    EventType.SERVICE_UP: ("ok", "The server of {service} runs again"),
    EventType.OPERATION_FAILED: ("bad", "{operation} failed for {service}"),
    EventType.DRILL_FAILED: ("bad", "A restore drill of {service} failed"),
    EventType.ARCHIVE_BEHIND: ("warn", "The archive of {service} is behind"),
    EventType.ARCHIVE_CAUGHT_UP: ("ok", "The archive of {service} has caught up"),
    EventType.STORAGE_WARNING: ("bad", "{service} is read-only, because storage is nearly full"),
    EventType.STORAGE_RELIEVED: ("ok", "{service} can be written to again"),
    EventType.QUOTA_REACHED: ("warn", "A request of {key_name} was refused because of a limit"),
}
NOTICED = tuple(_SENTENCES)
"""The types of events that make a notice. Deletions do not: who deletes forks by the hundred need not be told."""


@dataclass(frozen=True)
class Notice:
    """What happened. `tone` is ok, warn or bad; `is_new` when nobody has looked since."""

    sequence: int
    at: datetime
    tone: str
    text: str
    reason: str
    service_id: str | None
    is_new: bool


def notice_of(event: Event, seen: int) -> Notice:
    """Return an event of the types NOTICED as a notice; `seen` is the newest number that was looked at."""
    tone, sentence = _SENTENCES[event.type]
    text = sentence.format(
        service=event.data.get("service_name", "a service"),
        operation=_title(str(event.data.get("operation", ""))),
        key_name=event.data.get("key_name") or "a key",
    )
    reason = str(event.data.get("reason") or event.data.get("code") or "")
    return Notice(event.sequence, event.at, tone, text, reason, event.service_id, event.sequence > seen)


def ends_soon(authority: str, keys: Iterable[ApiKey], now: datetime) -> list[tuple[str, datetime]]:
    """Return what ends soon, and when: the certificate of the authority (PEM, or empty), and keys that still work."""
    found = [
        (f"The API key {key.name} ({key.public_key})", key.expires_at)
        for key in keys
        if key.is_active(now) and key.expires_at is not None and key.expires_at - now < _KEYS_BEFORE
    ]
    if authority:
        end = x509.load_pem_x509_certificate(authority.encode()).not_valid_after_utc
        if end - now < _AUTHORITY_BEFORE:
            found.append(("The certificate of the authority, with which clients verify endpoints,", end))
    return sorted(found, key=lambda one: one[1])


def _title(operation: str) -> str:
    return SPECS[operation].title if operation in SPECS else "An operation"
