"""Rows of the sessions that people have in a browser."""

from datetime import datetime

import sqlalchemy as sa

from ramet.model.session import SESSION_LIFE, Session
from ramet.store.keys import key_of
from ramet.store.tables import api_key, project, session


def insert_session(
    tx: sa.Connection, digest: str, public_key: str, expires_at: datetime, secret_digest: str | None = None
) -> None:
    """Add a session of a key, with the digest of the secret that began it; None: it is not known."""
    added = session.insert().values(digest=digest, public_key=public_key, expires_at=expires_at)
    tx.execute(added.values(secret_digest=secret_digest))


def get_session(tx: sa.Connection, digest: str, now: datetime) -> Session | None:
    """Return a session; None when it is over, or its key is revoked or has expired."""
    owner = session.join(api_key, api_key.c.public_key == session.c.public_key)
    columns = (session.c.digest, project.c.name.label("project_name"), *api_key.c)
    query = sa.select(*columns).select_from(owner.join(project, project.c.id == api_key.c.project_id))
    row = tx.execute(query.where((session.c.digest == digest) & _lasts(now))).one_or_none()
    if row is None or not (key := key_of(row[2:])).is_active(now):
        return None
    return Session(row[0], key, row[1])


def list_sessions(tx: sa.Connection, now: datetime) -> list[sa.Row[tuple[str, str, datetime, str | None]]]:
    """Return digest, public key, end, and digest of the secret of the sessions that are not over."""
    query = sa.select(session.c.digest, session.c.public_key, session.c.expires_at, session.c.secret_digest)
    return list(tx.execute(query.where(_lasts(now)).order_by(session.c.digest)))


def end_by(tx: sa.Connection, public_key: str, at: datetime, *, spared: str | None = None) -> None:
    """Let the sessions of a key end at a time at the latest, but not those of the secret with the digest `spared`."""
    mine = (session.c.public_key == public_key) & (session.c.expires_at > at)
    if spared is not None:
        mine &= session.c.secret_digest.is_distinct_from(spared)
    tx.execute(session.update().where(mine).values(expires_at=at))


def delete_session(tx: sa.Connection, digest: str) -> None:
    """Remove a session, if it is there."""
    tx.execute(session.delete().where(session.c.digest == digest))


def delete_expired(tx: sa.Connection, now: datetime) -> None:
    """Remove the sessions that are over."""
    tx.execute(session.delete().where(sa.not_(_lasts(now))))


def _lasts(now: datetime) -> sa.ColumnElement[bool]:
    """The condition for sessions that are not over; one that would last twice as long as any began by a wrong clock."""
    return (session.c.expires_at > now) & (session.c.expires_at <= now + 2 * SESSION_LIFE)
