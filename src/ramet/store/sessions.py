"""Rows of the sessions that people have in a browser."""

from datetime import datetime

import sqlalchemy as sa

from ramet.model.session import SESSION_LIFE, Session
from ramet.store.tables import api_key, project, session


def insert_session(tx: sa.Connection, digest: str, public_key: str, expires_at: datetime) -> None:
    """Add a session of a key."""
    tx.execute(session.insert().values(digest=digest, public_key=public_key, expires_at=expires_at))


def get_session(tx: sa.Connection, digest: str, now: datetime) -> Session | None:
    """Return a session; None when it is over, or its key was revoked."""
    owner = session.join(api_key, api_key.c.public_key == session.c.public_key)
    query = sa.select(
        session.c.digest, api_key.c.public_key, api_key.c.name, project.c.id, project.c.name.label("project_name")
    ).select_from(owner.join(project, project.c.id == api_key.c.project_id))
    live = (session.c.digest == digest) & _lasts(now) & api_key.c.revoked_at.is_(None)
    row = tx.execute(query.where(live)).one_or_none()
    return None if row is None else Session(*row)


def list_sessions(tx: sa.Connection, now: datetime) -> list[sa.Row[tuple[str, str, datetime]]]:
    """Return digest, public key and end of the sessions that are not over."""
    query = sa.select(session.c.digest, session.c.public_key, session.c.expires_at)
    return list(tx.execute(query.where(_lasts(now)).order_by(session.c.digest)))


def delete_session(tx: sa.Connection, digest: str) -> None:
    """Remove a session, if it is there."""
    tx.execute(session.delete().where(session.c.digest == digest))


def delete_expired(tx: sa.Connection, now: datetime) -> None:
    """Remove the sessions that are over."""
    tx.execute(session.delete().where(sa.not_(_lasts(now))))


def _lasts(now: datetime) -> sa.ColumnElement[bool]:
    """The condition for sessions that are not over; one that would last twice as long as any began by a wrong clock."""
    return (session.c.expires_at > now) & (session.c.expires_at <= now + 2 * SESSION_LIFE)
