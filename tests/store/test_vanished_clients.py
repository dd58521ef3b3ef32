"""A client that vanished within a transaction on PostgreSQL: the server ends it, so that others can go on."""

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.errors import Unavailable
from ramet.store import database, silence
from ramet.store.database import Store

_LOCK = sa.text("SELECT pg_advisory_xact_lock(1)")
_IDLE = "idle_in_transaction_session_timeout"

pytestmark = pytest.mark.servers


@contextlib.contextmanager
def opened(url: str) -> Iterator[Store]:
    with contextlib.closing(Store.open(url)) as store:
        yield store


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "IDLE_SECONDS", 2.0)
    monkeypatch.setattr(silence, "LOCK_SECONDS", 0.1)


def take_lock(store: Store) -> None:
    with store.write() as tx:
        tx.execute(_LOCK)


def can_take_lock(store: Store) -> bool:
    with contextlib.suppress(Unavailable):
        take_lock(store)
        return True
    return False


def sessions(url: str) -> int:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("short_limits")
def test_a_client_that_vanished_keeps_its_locks_only_for_a_while(postgresql_url: str) -> None:
    with opened(postgresql_url) as vanished, opened(postgresql_url) as other:

        def vanish() -> None:
            with vanished.write() as tx:
                tx.execute(_LOCK)
                with pytest.raises(Unavailable, match="The store was busy"):
                    take_lock(other)
                with other.read() as reading:  # to wait for a lock is not to have a store that does not answer
                    assert reading.scalar(sa.text("SELECT 1")) == 1
                before = sessions(postgresql_url)
                eventually(lambda: can_take_lock(other))
                assert sessions(postgresql_url) <= before
                tx.execute(_LOCK)

        with pytest.raises(Unavailable):
            vanish()
        take_lock(vanished)


@pytest.mark.usefixtures("short_limits")
def test_who_exports_the_store_may_take_any_time(postgresql_url: str) -> None:
    with opened(postgresql_url) as store:
        with store.read(at_one_time=True) as tx:
            assert tx.scalar(sa.text(f"SHOW {_IDLE}")) == "0"
        with store.read() as tx:
            assert tx.scalar(sa.text(f"SHOW {_IDLE}")) == "2s"


def test_migrations_wait_for_others_but_those_of_a_client_that_vanished_end(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[object]()

    def upgrade(engine: sa.Engine) -> None:
        with engine.connect() as connection:
            seen.extend(connection.scalar(sa.text(f"SHOW {name}")) for name in (_IDLE, "lock_timeout"))

    monkeypatch.setattr(database, "upgrade", upgrade)
    with opened(postgresql_url):
        assert seen == ["5min", "0"]
