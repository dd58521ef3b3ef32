"""What people look at beside a service itself: whether anything changed, and what came from it."""

from collections.abc import Mapping

from ramet.control.control import Control
from ramet.control.replica_views import all_with_sets
from ramet.store import operations, services


def project_state(control: Control, project_id: str) -> Mapping[str, object]:
    """Return, by service, values that differ as soon as anything differs that is shown of it or its forks.

    Takes three queries.
    """
    now = control.clock()
    with control.store.read() as tx:
        listed = all_with_sets(tx, project_id, services.list_services(tx, project_id, now), now)
        progress = operations.progress_in(tx, project_id)
    forks: dict[str, list[object]] = {}
    for service in listed:
        if service.origin is not None:
            forks.setdefault(service.origin.service_id, []).append((service.name, service.activity, service.paused))
    return {service.id: (service, progress.get(service.id), forks.get(service.id)) for service in listed}
