"""WAL archives: whether archiving keeps up is recorded where clients see it."""

import logging

from ramet.control.plane import Plane
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.store import services

_log = logging.getLogger(__name__)


def inspect_archives(plane: Plane) -> None:
    """Maintain the archive of each service that is READY, and record by how much archiving falls behind."""
    with plane.store.read() as tx:
        known = [service for service in services.all_live_services(tx) if status_of(service) is Status.READY]
    for service in known:
        delay = plane.backend.servers.tend_archive(service.id)
        if delay == service.archive_delay:
            continue
        if delay is not None:
            _log.warning("service %s: %s", service.id, delay)
        with plane.store.write() as tx:
            services.update_service(tx, service.id, archive_delay=delay)
