"""The list of a project's services, of which only those are read that have changed since they were listed last.

What is made of a service is kept with a mark of its state. Each list asks the store for the marks of all services, so
that nothing outdated is ever returned, whoever has changed it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.metrics import CURRENT
from ramet.control.plane import Plane
from ramet.model.metrics import Usage
from ramet.model.service import Service
from ramet.store import listed_services, replica_sets

_MOST_BY_ID = 1000
Made = TypeVar("Made")


@dataclass
class Listing(Generic[Made]):
    """Keeps what `make` has made of services, `most` at the most. It belongs to one thread."""

    make: Callable[[Service], Made]
    most: int = 20_000
    _kept: dict[str, tuple[str, Made]] = field(default_factory=dict)

    def list_services(self, plane: Plane, project_id: str) -> list[tuple[Made, Usage | None]]:
        """Return what is made of each visible service of a project, oldest first, and what the service uses now."""
        now = plane.clock()
        with plane.store.read() as tx:
            listed = listed_services.list_marks(tx, project_id, now, now - CURRENT, made_by=plane.only_made_by)
            sets = replica_sets.list_of_project(tx, project_id, now)
            known = {one: self._kept[one][1] for one, mark, _ in listed if one not in sets and self._is_kept(one, mark)}
            missing = [one for one, _, _ in listed if one not in known]
            made = self._made(tx, plane, project_id, missing) if missing else []
        for mark, service in made:
            if service.id in sets:
                known[service.id] = self.make(replace(service, replica_sets=tuple(sets[service.id])))
            else:
                known[service.id] = self._keep(service.id, mark, self.make(service))
        return [(known[one], usage) for one, _, usage in listed if one in known]

    def _is_kept(self, service_id: str, mark: str) -> bool:
        return service_id in self._kept and self._kept[service_id][0] == mark

    def _made(self, tx: sa.Connection, plane: Plane, project_id: str, missing: list[str]) -> list[tuple[str, Service]]:
        some = None if len(missing) > _MOST_BY_ID else missing
        return listed_services.list_marked(tx, project_id, plane.clock(), some, made_by=plane.only_made_by)

    def _keep(self, service_id: str, mark: str, made: Made) -> Made:
        self._kept.pop(service_id, None)
        if len(self._kept) >= self.most:
            del self._kept[next(iter(self._kept))]
        self._kept[service_id] = mark, made
        return made
