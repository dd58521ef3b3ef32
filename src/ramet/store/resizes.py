"""Resizes that are accepted and not over: the sizes that their services may have until then.

A row has the size before until others have copied from the service, and it has that again when the resize fails.
"""

from typing import NamedTuple

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.store.tables import is_live, operation, service

_by_resize = sa.select(service.c.id, service.c.environment, service.c.memory_gbs, operation.c.state)
_by_resize = _by_resize.join_from(service, operation, operation.c.id == service.c.operation_id)
_by_resize = _by_resize.where(is_live(service), operation.c.procedure == ProcedureName.RESIZE.value)


class Resizing(NamedTuple):
    """A service that is being resized: the memory in its row, and the most that it may have until that is over."""

    environment: str
    memory_gbs: int | None
    most_cpu_millis: int | None
    most_memory_gbs: int | None


def resizes_under_way(tx: sa.Connection) -> dict[str, Resizing]:
    """Return the services of all projects that are being resized, by their ids."""
    return {
        service_id: Resizing(environment, memory, *map(_larger, state["before"], state["after"]))
        for service_id, environment, memory, state in tx.execute(_by_resize)
    }


def _larger(one: int | None, other: int | None) -> int | None:
    return max(one, other, key=lambda amount: amount or 0)
