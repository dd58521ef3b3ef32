"""The labels of services."""

from collections.abc import Callable, Mapping

from ramet.control.lookup import changeable_service
from ramet.control.plane import Plane
from ramet.model.labels import changed_labels, check_labels
from ramet.model.service import Service
from ramet.store import services


def update_labels(plane: Plane, project_id: str, service_id: str, changes: Mapping[str, str | None]) -> Service:
    """Set some labels of a service, and remove those whose new value is None."""
    return _change(plane, project_id, service_id, lambda labels: changed_labels(labels, changes))


def set_labels(plane: Plane, project_id: str, service_id: str, labels: Mapping[str, str]) -> Service:
    """Give a service these labels and no others."""
    return _change(plane, project_id, service_id, lambda _: check_labels(labels))


def _change(
    plane: Plane, project_id: str, service_id: str, change: Callable[[Mapping[str, str]], dict[str, str]]
) -> Service:
    with plane.store.write() as tx:
        service = changeable_service(plane, tx, project_id, service_id, "updateLabels")
        services.update_service(tx, service.id, labels=change(service.labels) or None)
        return changeable_service(plane, tx, project_id, service_id, "updateLabels")
