"""The columns of a table as text: `id! project_id:project.id+ port:int created_at:time failure?`.

Each is name:type, and text where the type is left out; a type with a dot is a reference to that column. Marks behind
it: ! the key, or a part of it; ? may be null; + has an index.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcTime(sa.TypeDecorator[datetime]):
    """An aware datetime, exact to the microsecond."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        """Store microseconds since the epoch."""
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[int | None], datetime | None]:
        """Return what makes an aware datetime in UTC: at once, without the calls that process_result_value has."""
        return _utc_time


def _utc_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)


_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "": sa.Text(),
    "int": sa.Integer(),
    "bigint": sa.BigInteger(),
    "serial": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "float": sa.Float(),
    "bool": sa.Boolean(),
    "time": UtcTime(),
    "json": sa.JSON(none_as_null=True),
}


def columns(described: str, **defaults: object) -> list[sa.Column[Any]]:
    """Return the columns of a text, with the values that rows get where a statement has none."""
    return [_column(one, defaults) for one in described.split()]


def _column(described: str, defaults: Mapping[str, object]) -> sa.Column[Any]:
    name, _, kind = described.rstrip("!?+").partition(":")
    is_reference = "." in kind
    return sa.Column(
        name,
        _TYPES["" if is_reference else kind],
        *([sa.ForeignKey(kind)] if is_reference else []),
        primary_key="!" in described,
        nullable="?" in described,
        index="+" in described or None,
        default=defaults.get(name),
    )
