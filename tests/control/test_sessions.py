"""Beginning sessions of the console: as long as the key and the secret that was used, whatever changes on the way."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.control.plane import utc_now
from ramet.control.projects import Projects
from ramet.control.sessions import Sessions
from ramet.errors import Unauthorized
from ramet.model.keys import ApiKey
from ramet.model.passwords import Secret
from ramet.model.session import SESSION_LIFE, digest_token
from ramet.store import sessions
from ramet.store.database import Store

_NOW = utc_now()
_SECOND = timedelta(seconds=1)


class Holder:
    """Who has a key: the clock stands still."""

    def __init__(self, store: Store) -> None:
        self.store, self.projects, self.sessions = store, Projects(store, lambda: _NOW), Sessions(store)
        self.project = self.projects.create_project("demo", _NOW)
        self.key, self.secret = self.projects.create_key(self.project.id, "first", _NOW)

    def proven(self, secret: Secret) -> ApiKey:
        return self.projects.authenticate(self.key.public_key, secret)

    def rotate(self, overlap_seconds: int) -> Secret:
        return self.projects.rotate_key(self.project.id, self.key.public_key, overlap_seconds, _NOW)[1]

    def ends_at(self, key: ApiKey) -> datetime:
        """Return when a session ends that begins now."""
        token = self.sessions.begin(key, _NOW)
        with self.store.read() as tx:
            ends: dict[str, datetime] = {one.digest: one.expires_at for one in sessions.list_sessions(tx, _NOW)}
        return ends[digest_token(token)]


@pytest.fixture(name="holder")
def _holder(store: Store) -> Holder:
    return Holder(store)


def test_a_session_ends_with_the_secret_that_was_used(holder: Holder) -> None:
    first = holder.proven(holder.secret)
    assert holder.ends_at(first) == _NOW + SESSION_LIFE
    second = holder.rotate(60)
    assert holder.ends_at(first) == holder.ends_at(holder.proven(holder.secret)) == _NOW + 60 * _SECOND
    assert holder.ends_at(holder.proven(second)) == _NOW + SESSION_LIFE


@pytest.mark.parametrize("first_seconds", [60, 30 * 86_400])
def test_an_overlap_that_is_shortened_ends_only_sessions_of_the_secret_before(
    holder: Holder, first_seconds: int
) -> None:
    def rotate(overlap_seconds: int) -> Secret:
        return holder.projects.rotate_key(
            holder.project.id, holder.key.public_key, overlap_seconds, _NOW, derived=lambda digest: Secret(digest[:32])
        )[1]

    begun = holder.sessions.begin(holder.proven(holder.secret), _NOW)
    second = rotate(first_seconds)
    in_overlap = holder.sessions.begin(holder.proven(holder.secret), _NOW)
    own = holder.sessions.begin(holder.proven(second), _NOW)
    for overlap_seconds in (30, 0):
        assert rotate(overlap_seconds).reveal() == second.reveal()
        at = _NOW + overlap_seconds * _SECOND
        assert [holder.sessions.find(token, at) is None for token in (begun, in_overlap, own)] == [True, True, False]


@pytest.mark.parametrize(
    "end",
    [
        lambda one: one.rotate(0),
        lambda one: (one.rotate(60), one.rotate(60)),
        lambda one: one.projects.revoke_key(one.key.public_key, _NOW),
        lambda one: one.projects.change_key(one.project.id, one.key.public_key, _NOW - _SECOND, expires_at=_NOW),
    ],
    ids=["rotated", "rotated twice", "revoked", "expired"],
)
def test_no_session_begins_with_a_secret_that_is_void_by_then(holder: Holder, end: Callable[[Holder], object]) -> None:
    proven = holder.proven(holder.secret)
    end(holder)
    with pytest.raises(Unauthorized):
        holder.sessions.begin(proven, _NOW)


def test_no_session_begins_with_a_previous_secret_that_a_second_rotation_has_voided(holder: Holder) -> None:
    holder.rotate(60)
    proven = holder.proven(holder.secret)
    holder.rotate(60)
    with pytest.raises(Unauthorized):
        holder.sessions.begin(proven, _NOW)


@pytest.mark.servers
def test_no_rotation_comes_between_the_look_at_a_key_and_its_session(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(postgresql_url)
    holder, insert = Holder(store), sessions.insert_session

    def interrupted(*given: Any) -> None:
        with store.engine.connect() as other:
            other.execute(sa.text("SET lock_timeout = '50ms'"))
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                other.execute(sa.text("UPDATE api_key SET previous_digest = secret_digest"))
        insert(*given)

    monkeypatch.setattr(sessions, "insert_session", interrupted)
    holder.sessions.begin(holder.key, _NOW)
    store.close()
