"""Notifications of new operations arrive whatever is in the URL of the store, and its password stays out of the log."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.operations.listener import Listener
from ramet.store.database import Store
from ramet.store.operations import CHANNEL

_PASSWORD = "my secret"


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@contextmanager
def listening(store: Store, wake: threading.Event) -> Iterator[None]:
    listener = Listener(store, wake.set)
    listener.start()
    try:
        yield
    finally:
        listener.stop()


@pytest.mark.servers
def test_it_hears_over_a_url_with_escapes(postgresql_url: str, caplog: pytest.LogCaptureFixture) -> None:
    url = postgresql_url.replace("//ramet@", "//ramet:my%20secret@") + "?options=-c%20application_name%3Dlistening"
    heard = threading.Event()
    with closing(Store.open(url)) as store, listening(store, heard):
        eventually(heard.is_set, "the listener to listen")
        heard.clear()
        with store.write() as tx:
            tx.execute(sa.text(f"NOTIFY {CHANNEL}"))
        eventually(heard.is_set, "a notification")
        with store.read() as tx:
            names = tx.scalars(sa.text("SELECT application_name FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"))
            assert names.all() == ["listening"]
    assert _PASSWORD not in caplog.text


def test_a_failed_attempt_is_logged_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    engine = sa.create_engine("postgresql+psycopg://ramet:my%20secret@127.0.0.1:1/my%20database")
    with closing(Store(engine)) as store, listening(store, threading.Event()):
        eventually(lambda: "found by polling" in caplog.text, "an attempt")
    assert "OperationalError" in caplog.text
    assert _PASSWORD not in caplog.text
