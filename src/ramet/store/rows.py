"""Values as rows and rows as values: a field has the name of its column."""

from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa


def columns_of(value: object, names: str) -> dict[str, Any]:
    """Return the fields of a value with these names, as a driver takes them."""
    fields = {name: getattr(value, name) for name in names.split()}
    stored: dict[str, Any] = msgspec.to_builtins(fields, builtin_types=(datetime,))
    return stored


def values_of(row: sa.Row[Any]) -> dict[str, Any]:
    """Return a row by column names that are plain strings, which `msgspec.convert` needs."""
    return {str(name): value for name, value in row._asdict().items()}
