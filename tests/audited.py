"""Whatever a test changes over HTTP must be in the audit: a route that leaves no entry fails each test that uses it."""

from datetime import datetime

import httpx

from ramet.audit.recorder import AuditRecorder
from ramet.model.audit import Entry, EntryFilter, chain_key
from ramet.store import audit
from ramet.store.database import Store

_CHANGING = ("POST", "PUT", "PATCH", "DELETE")
_UNRECORDED = ("/metrics/series", "/auth/logout", "/analytics/identify", "/analytics/track")


def keep_audit(store: Store, root_key: bytes, clock: object = None) -> None:
    """Let a store record what is changed in it."""
    recorder = AuditRecorder(chain_key(root_key)) if clock is None else AuditRecorder(chain_key(root_key), clock)  # type: ignore[arg-type]
    store.recorders.append(recorder.record)


def entries_of(store: Store, **wanted: str | datetime) -> list[Entry]:
    """Return the newest entries that a filter finds, oldest first."""
    with store.read() as tx:
        return audit.list_entries(tx, EntryFilter(**wanted), 1000)[::-1]  # type: ignore[arg-type]


def check_audited(store: Store, response: httpx.Response) -> httpx.Response:
    """Check that a request that may have changed something has an entry. Refused ones are too many in some tests."""
    request = response.request
    if request.method not in _CHANGING or response.status_code >= 400 or request.url.path.endswith(_UNRECORDED):
        return response
    found = entries_of(store, request_id=response.headers["x-request-id"])
    assert found, f"{request.method} {request.url.path} left no entry in the audit"
    return response
