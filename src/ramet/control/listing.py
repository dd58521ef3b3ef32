"""The list of a project's services, of which only those are read that have changed since they were listed last.

What is made of a service is kept with a mark of its state. Each list asks the store for the marks of all services, so
that nothing outdated is ever returned, whoever has changed it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.metrics import CURRENT
from ramet.control.plane import Plane
from ramet.model.metrics import Usage
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.store import listed_services, replica_sets
from ramet.store.listed_services import Position
from ramet.store.metrics import usage_of_row

_MOST_BY_ID = 1000
_usage = lru_cache(maxsize=20_000)(usage_of_row)
Made = TypeVar("Made")


@dataclass
class Listing(Generic[Made]):
    """Keeps what `make` has made of services, `most` at the most. It belongs to one thread."""

    make: Callable[[Service], Made]
    most: int = 20_000
    _kept: dict[str, tuple[str, Made]] = field(default_factory=dict)
    _server: str = ""

    def list_services(
        self, plane: Plane, project_id: str, after: Position | None = None, limit: int | None = None
    ) -> list[tuple[Made, Usage | None]]:
        """Return what is made of each visible service of a project, oldest first, and what the service uses now.

        With `after` only those that follow this creation time and id, and at most `limit`: fewer are the last ones.
        """
        now = plane.clock()
        with plane.store.read() as tx:
            self._forget_another(listed_services.server_of(tx))
            rows = listed_services.list_marks(
                tx, project_id, now, now - CURRENT, made_by=plane.only_made_by, after=after, limit=limit
            )
            sets = replica_sets.list_of_project(tx, project_id, now)
            found = [self._kept.get(row[0]) for row in rows]
            stale = [
                number
                for number, (row, each) in enumerate(zip(rows, found, strict=True))
                if each is None or each[0] != row[1] or row[0] in sets
            ]
            read = self._read(tx, plane, project_id, [rows[number][0] for number in stale], now) if stale else []
        fresh = {service.id: self._made(mark, service, sets) for mark, service in read}
        for number in stale:
            found[number] = fresh.get(rows[number][0])
        listed = [(each[1], _usage(*row[2:])) for row, each in zip(rows, found, strict=True) if each is not None]
        if limit is not None and len(listed) < len(rows):  # one was deleted between the two statements
            return self.list_services(plane, project_id, after, limit)
        return listed

    def _forget_another(self, server: str) -> None:
        if server != self._server:
            self._kept.clear()
            self._server = server

    def _read(
        self, tx: sa.Connection, plane: Plane, project_id: str, stale: list[str], now: datetime
    ) -> list[tuple[str, Service]]:
        some = None if len(stale) > _MOST_BY_ID else stale
        return listed_services.list_marked(tx, project_id, now, some, made_by=plane.only_made_by)

    def _made(self, mark: str, service: Service, sets: Mapping[str, Sequence[ReplicaSet]]) -> tuple[str, Made]:
        """Make something of a service, and keep it unless it has read replica sets: the mark knows nothing of these."""
        if service.id in sets:
            return mark, self.make(replace(service, replica_sets=tuple(sets[service.id])))
        made = mark, self.make(service)
        self._kept.pop(service.id, None)
        if len(self._kept) >= self.most:
            del self._kept[next(iter(self._kept))]
        self._kept[service.id] = made
        return made
