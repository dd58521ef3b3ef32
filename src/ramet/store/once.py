"""Rows of what works once, in whichever process it arrives: links that sign in, and forms of the console that write."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ramet.store.tables import sign_in_link, spent_form


def insert_link(tx: sa.Connection, digest: str, public_key: str, secret_digest: str, expires_at: datetime) -> None:
    """Add a link of a key, with the digest of the secret that it was made with."""
    row = {"digest": digest, "public_key": public_key, "secret_digest": secret_digest, "expires_at": expires_at}
    tx.execute(sign_in_link.insert().values(row))


def has_link(tx: sa.Connection, digest: str) -> bool:
    """Tell whether there is a link, valid or not."""
    return tx.scalar(sa.select(sign_in_link.c.digest).where(sign_in_link.c.digest == digest)) is not None


def take_link(tx: sa.Connection, digest: str) -> tuple[str, str, datetime] | None:
    """Remove a link, and return its public key, digest of the secret, and end; None where there is none.

    Of those who take it at once, one gets it.
    """
    link = sign_in_link.c
    taken = sign_in_link.delete().where(link.digest == digest)
    row = tx.execute(taken.returning(link.public_key, link.secret_digest, link.expires_at)).one_or_none()
    return None if row is None else (row[0], row[1], row[2])


def delete_expired_links(tx: sa.Connection, now: datetime) -> None:
    """Remove the links that are not valid any more."""
    tx.execute(sign_in_link.delete().where(sign_in_link.c.expires_at <= now))


def spend_form(tx: sa.Connection, public_key: str, digest: str, expires_at: datetime) -> bool:
    """Add a form that a key has sent; False where it is there already. Of those who add it at once, one gets True."""
    row = {"public_key": public_key, "digest": digest, "expires_at": expires_at}
    insert = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    return tx.execute(insert(spent_form).values(row).on_conflict_do_nothing()).rowcount == 1


def delete_expired_forms(tx: sa.Connection, now: datetime) -> None:
    """Remove the forms that no session can send any more."""
    tx.execute(spent_form.delete().where(spent_form.c.expires_at <= now))
