"""Regular work on each server; how far archiving falls behind is recorded where clients see it."""

import logging
import time
from collections.abc import Callable, Iterator
from datetime import datetime

from ramet.backends.interface.values import Server
from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.subjects import serving_sets
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.replicas import servers_of_set
from ramet.procedures.servers import server_of
from ramet.store import services

_BUDGET_SECONDS = 0.1
_FRESH_SECONDS = 1.0  # a round with many servers takes longer: what operations change since is to be left alone
_log = logging.getLogger(__name__)
_faults = Faults("maintenance")


def maintain_servers(plane: Plane, now: Callable[[], datetime]) -> None:
    """Let the backend maintain each server that no operation is changing; record how far archiving is behind.

    `now` is the trusted time (`ramet.control.duties.clock`).
    """
    for service, server in _servers(plane):
        with _faults.contained(server.service_id):
            delay = plane.backend.servers.maintain(server, _BUDGET_SECONDS, now()).archive_delay
            is_primary = server.primary is None
            if is_primary and status_of(service) is Status.READY and delay != service.archive_delay:
                _record(plane, service.id, delay)


def _servers(plane: Plane) -> Iterator[tuple[Service, Server]]:
    """Yield the servers of services and of their read replica sets, each with its service as it is about now."""
    done: set[str] = set()
    while left := [pair for pair in _idle_servers(plane) if pair[1].service_id not in done]:
        read_at = time.monotonic()
        for service, server in left:
            done.add(server.service_id)
            yield service, server
            if time.monotonic() - read_at > _FRESH_SECONDS:
                break
        else:
            return


def _idle_servers(plane: Plane) -> Iterator[tuple[Service, Server]]:
    with plane.store.read() as tx:
        known = {service.id: service for service in services.live_services(tx)}
        sets = serving_sets(tx)
    for service in known.values():
        if service.ready_at is not None and service.activity is None:
            yield service, server_of(service)
    for each in sets:
        if each.service_id in known:
            for server in servers_of_set(each, known[each.service_id]):
                yield known[each.service_id], server


def _record(plane: Plane, service_id: str, delay: str | None) -> None:
    if delay is not None:
        _log.warning("service %s: %s", service_id, delay)
    with plane.store.write() as tx:
        services.update_service(tx, service_id, archive_delay=delay)
