"""Rows of the API keys that open projects."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict

from ramet.model.keys import NO_KEY_LIMITS, ApiKey, KeyLimits
from ramet.model.rights import Role
from ramet.store.database import locking
from ramet.store.tables import api_key

_ROLES = {each.value: each for each in Role}
_key_of = api_key.select().where(api_key.c.public_key == sa.bindparam("public_key"))


def insert_key(tx: sa.Connection, key: ApiKey) -> None:
    """Add a key."""
    tx.execute(api_key.insert(), {**asdict(key), "role": key.role.value, "limits": limits_column(key.limits)})


def find_key(tx: sa.Connection, public_key: str, *, lock: bool = False) -> ApiKey | None:
    """Return a key, revoked or not, or None. One that is locked is not changed before the transaction ends."""
    row = tx.execute(locking(_key_of) if lock else _key_of, {"public_key": public_key}).one_or_none()
    return None if row is None else key_of(row)


def list_keys(tx: sa.Connection, project_id: str) -> list[ApiKey]:
    """Return the keys of a project, oldest first."""
    query = api_key.select().where(api_key.c.project_id == project_id)
    return [key_of(row) for row in tx.execute(query.order_by(api_key.c.created_at, api_key.c.public_key))]


def update_key(tx: sa.Connection, public_key: str, **columns: Any) -> None:
    """Set columns of a key."""
    tx.execute(api_key.update().where(api_key.c.public_key == public_key).values(columns))


def revoke_key(tx: sa.Connection, public_key: str, now: datetime) -> None:
    """Mark a key as revoked; the first time counts."""
    unrevoked = (api_key.c.public_key == public_key) & api_key.c.revoked_at.is_(None)
    tx.execute(api_key.update().where(unrevoked).values(revoked_at=now))


def record_use(tx: sa.Connection, public_key: str, now: datetime) -> None:
    """Record when a key was used last; a later time stays."""
    earlier = api_key.c.used_at.is_(None) | (api_key.c.used_at < now)
    tx.execute(api_key.update().where(api_key.c.public_key == public_key, earlier).values(used_at=now))


def limits_column(limits: KeyLimits) -> dict[str, Any] | None:
    """Return limits as they are stored."""
    return msgspec.to_builtins(limits) or None


def key_of(columns: Sequence[Any]) -> ApiKey:
    """Return the key of a row that begins with the columns of the table, in their order."""
    limits = NO_KEY_LIMITS if columns[11] is None else msgspec.convert(columns[11], KeyLimits)
    fields = (*columns[:6], _ROLES[columns[6]], *columns[7:11], limits, columns[12])
    return ApiKey(*fields)
