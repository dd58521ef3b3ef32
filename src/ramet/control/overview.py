"""The state of a project's services, to detect that something shown of them has changed."""

from collections.abc import Mapping

from ramet.control.plane import Plane
from ramet.control.services import list_services
from ramet.store import operations


def project_state(plane: Plane, project_id: str) -> Mapping[str, object]:
    """Return, by service, values that differ as soon as anything differs that is shown of it or its forks.

    Takes three queries.
    """
    listed = list_services(plane, project_id)
    with plane.store.read() as tx:
        progress = operations.progress_in(tx, project_id)
    forks: dict[str, list[object]] = {}
    for service in listed:
        if service.origin is not None:
            forks.setdefault(service.origin.service_id, []).append((service.name, service.activity, service.paused))
    return {service.id: (service, progress.get(service.id), forks.get(service.id)) for service in listed}
