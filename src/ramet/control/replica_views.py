"""Read replica sets as part of what clients see of services, and as services where they ask for one by a set's id."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.model.replica import as_service, set_is_visible
from ramet.model.service import Service
from ramet.store import replicas, services


def with_sets(tx: sa.Connection, service: Service, now: datetime) -> Service:
    """Return a service with its sets."""
    found = replicas.list_of_service(tx, service.id, now)
    return replace(service, replica_sets=tuple(found)) if found else service


def all_with_sets(tx: sa.Connection, project_id: str, listed: Sequence[Service], now: datetime) -> list[Service]:
    """Return the services of a project with their sets, for one more query however many there are."""
    found = replicas.list_of_project(tx, project_id, now)
    return [replace(each, replica_sets=tuple(found[each.id])) if each.id in found else each for each in listed]


def set_as_service(tx: sa.Connection, project_id: str, set_id: str, now: datetime) -> Service | None:
    """Return a set of the project as a service, or None when there is no such set."""
    found = replicas.get_set(tx, set_id)
    if found is None or found.project_id != project_id or not set_is_visible(found, now):
        return None
    parent = services.get_service(tx, found.service_id)
    return None if parent is None else as_service(found, parent)
