"""The labels of services, and lists that are limited to some of them."""

from collections.abc import Mapping, Sequence

from ramet.control.lookup import changeable_service
from ramet.control.plane import Plane
from ramet.model.labels import LabelFilter, changed_labels
from ramet.model.service import Service
from ramet.store import services


def update_labels(plane: Plane, project_id: str, service_id: str, changes: Mapping[str, str | None]) -> Service:
    """Set some labels of a service, and remove those whose new value is None."""
    with plane.store.write() as tx:
        service = changeable_service(plane, tx, project_id, service_id, "updateLabels")
        services.update_service(tx, service.id, labels=changed_labels(service.labels, changes) or None)
        return changeable_service(plane, tx, project_id, service_id, "updateLabels")


def labelled(known: list[Service], filters: Sequence[LabelFilter]) -> list[Service]:
    """Return the services that all filters accept."""
    return [one for one in known if all(each.accepts(one.labels) for each in filters)] if filters else known
