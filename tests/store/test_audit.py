"""The chain of the audit, on SQLite and PostgreSQL, with several writers."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from ramet.acting import Act, Actor, acting
from ramet.audit.recorder import AuditRecorder
from ramet.audit.verbs import remove_old_entries
from ramet.audit.verification import verify
from ramet.model.audit import EntryFilter
from ramet.store import audit
from ramet.store.database import Store

KEY = b"key"
_WRITERS = 4
_EACH = 6


def _opened(url: str) -> Store:
    store = Store.open(url)
    store.recorders.append(AuditRecorder(KEY, lambda: datetime.now(UTC)).record)
    return store


def _write(store: Store, writer: int) -> None:
    for number in range(_EACH):
        act = Act(Actor("key", f"RK{writer}"), "api", verb="rename", fields={"number": number, "text": "é\u2028"})
        with acting(act), store.write():
            pass


def test_entries_of_writers_at_the_same_time_are_one_chain(url: str) -> None:
    stores = [_opened(url) for _ in range(2)]
    threads = [threading.Thread(target=_write, args=(stores[n % 2], n)) for n in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with stores[0].read() as tx:
        found = verify(audit.walk(tx), KEY)
        own = audit.list_entries(tx, EntryFilter(actor="RK2"), 100)
    for store in stores:
        store.close()
    assert (found.entries, found.last, found.problems) == (_WRITERS * _EACH, _WRITERS * _EACH, [])
    assert [entry.fields["number"] for entry in own] == [*range(_EACH)][::-1]


def test_a_removal_of_old_entries_while_they_are_verified_is_no_alteration(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_BATCH", 2)
    store = _opened(url)
    _write(store, 1)
    with store.read(at_one_time=True) as tx:
        entries = audit.walk(tx)
        first = next(entries)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert remove_old_entries(store, AuditRecorder(KEY), tomorrow, timedelta(0)) == _EACH
        found = verify([first, *entries], KEY)
    assert (found.entries, found.problems) == (_EACH, [])
    with store.read(at_one_time=True) as tx:
        found = verify(audit.walk(tx), KEY)
    store.close()
    assert (found.entries, found.problems) == (1, [])


def test_a_transaction_that_is_rolled_back_leaves_no_entry_and_its_repetition_leaves_one(url: str) -> None:
    store, act = _opened(url), Act(Actor("key", "RK"), "api", verb="rename")
    with acting(act):
        for fails in (True, False, False):
            try:
                with store.write():
                    if fails:
                        raise ValueError
            except ValueError:
                pass
    with store.read() as tx:
        assert len(list(audit.walk(tx))) == 1
    store.close()
