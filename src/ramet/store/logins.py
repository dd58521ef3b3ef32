"""Rows of the logins that keys have in the databases of services."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa

from ramet.model.login import Login
from ramet.store.rows import values_of
from ramet.store.tables import login


def insert_login(tx: sa.Connection, new: Login) -> None:
    """Add a login."""
    tx.execute(login.insert(), msgspec.structs.asdict(new))


def list_logins(tx: sa.Connection, service_id: str | None = None) -> list[Login]:
    """Return the logins of a service, or of all, oldest first; also those that have ended and are not dropped yet."""
    query = login.select().order_by(login.c.created_at, login.c.role)
    if service_id is not None:
        query = query.where(login.c.service_id == service_id)
    return [msgspec.convert(values_of(row), Login) for row in tx.execute(query)]


def end_login(tx: sa.Connection, role: str, now: datetime) -> None:
    """Record that a login has ended; what drops those of its kind drops it."""
    tx.execute(login.update().where(login.c.role == role).values(expires_at=now))


def move_logins(tx: sa.Connection, from_id: str, to_id: str) -> None:
    """Let the logins of a service belong to another one, which has the data with their roles now."""
    tx.execute(login.update().where(login.c.service_id == from_id).values(service_id=to_id))


def delete_logins(tx: sa.Connection, service_id: str, roles: Sequence[str]) -> None:
    """Remove logins of a service; one that belongs to another service by now stays."""
    tx.execute(login.delete().where(login.c.service_id == service_id, login.c.role.in_(roles)))
