"""Sessions as rows: they end by time, by their key, and by signing out."""

from datetime import timedelta

import sqlalchemy as sa

from ramet.model.keys import ApiKey
from ramet.model.session import SESSION_LIFE, Session
from ramet.store import keys, sessions, tables
from ramet.store.database import Store
from tests.store.values import NOW, a_project

_LATER = NOW + timedelta(hours=1)


def _found(store: Store, digest: str, at: timedelta = timedelta(0)) -> Session | None:
    with store.read() as tx:
        return sessions.get_session(tx, digest, NOW + at)


def _open(store: Store, *digests: str) -> Session:
    """Begin sessions of a new key; return the first one as it should come back."""
    with store.write() as tx:
        project = a_project(tx)
        key = ApiKey(f"RK{digests[0]}", project.id, "ci", "digest", NOW)
        keys.insert_key(tx, key)
        for digest in digests:
            sessions.insert_session(tx, digest, f"RK{digests[0]}", _LATER)
    return Session(digests[0], key, project.name)


def test_a_session_comes_back_until_it_is_over(store: Store) -> None:
    opened = _open(store, "one")
    assert _found(store, "one") == opened
    assert _found(store, "one", timedelta(hours=1)) is None
    assert _found(store, "other") is None


def test_a_session_that_began_by_a_clock_far_ahead_is_over(store: Store) -> None:
    _open(store, "one")
    assert _found(store, "one", -2 * SESSION_LIFE) is None
    with store.write() as tx:
        sessions.delete_expired(tx, NOW - 2 * SESSION_LIFE)
        assert tx.scalar(sa.select(sa.func.count()).select_from(tables.session)) == 0


def test_a_session_that_is_ended_is_gone_and_others_are_not(store: Store) -> None:
    _open(store, "one", "two")
    for _ in range(2):
        with store.write() as tx:
            sessions.delete_session(tx, "one")
    assert _found(store, "one") is None
    assert _found(store, "two") is not None


def test_a_revoked_key_ends_its_sessions(store: Store) -> None:
    opened = _open(store, "one")
    with store.write() as tx:
        keys.revoke_key(tx, opened.public_key, NOW)
    assert _found(store, "one") is None


def test_only_what_is_over_is_forgotten(store: Store) -> None:
    _open(store, "one")
    for at, left in ((_LATER - timedelta(microseconds=1), 1), (_LATER, 0)):
        with store.write() as tx:
            sessions.delete_expired(tx, at)
            assert tx.scalar(sa.select(sa.func.count()).select_from(tables.session)) == left
