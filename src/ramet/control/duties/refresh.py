"""Servers and poolers that an earlier release started get what this release gives to new ones."""

import logging
from dataclasses import dataclass, field
from datetime import datetime

from ramet.backends.interface.values import Server
from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.subjects import servers_of, serving_services, serving_sets
from ramet.errors import Error
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.replicas import direct_clients, servers_of_set
from ramet.procedures.servers import server_of
from ramet.store import replica_sets, services

_log = logging.getLogger(__name__)


@dataclass
class Refresh:
    """The duty: each service that is older than this process is refreshed once.

    The round takes seconds for each of them, so each is read again before it, and after it: what was changed during its
    refresh may have been overwritten, and is refreshed again in the next round.
    """

    plane: Plane
    _begun: datetime = field(init=False)
    _done: set[str] = field(default_factory=set)
    _unsettled: set[str] = field(default_factory=set)
    _faults: Faults = field(default_factory=lambda: Faults("upgrades"))

    def __post_init__(self) -> None:
        """Remember when this process began."""
        self._begun = self.plane.clock()

    def apply(self) -> None:
        """Refresh the serving services that were not refreshed yet, with their read replica sets."""
        for service in serving_services(self.plane.store):
            if self._is_due(service):
                self._unsettled.add(service.id)
                with self._faults.contained(service.id):
                    if self._refresh(service.id):
                        self._done.add(service.id)
                        self._unsettled.remove(service.id)
        for service_id in sorted(self._unsettled):
            with self._faults.contained(service_id):
                self._settle(service_id)

    def _is_due(self, service: Service) -> bool:
        is_older = service.ready_at is not None and service.ready_at < self._begun
        is_idle = service.activity is None and status_of(service) is Status.READY
        return is_older and is_idle and service.id not in self._done

    def _refresh(self, service_id: str) -> bool:
        """Refresh a service and its sets; tell whether that is complete."""
        with self.plane.store.read() as tx:
            service, sets = services.get_service(tx, service_id), serving_sets(tx, service_id)
        if service is None or not self._is_due(service):
            return False
        server = server_of(service)
        is_complete = self.plane.backend.servers.refresh(server)
        if not (self._is_unchanged(service, [server]) and is_complete):
            return False
        are_refreshed = all(self._refresh_set(each.id, service_id) for each in sets)
        return are_refreshed and self._is_unchanged(service, [server])

    def _refresh_set(self, set_id: str, service_id: str) -> bool:
        """Refresh a set that serves, and its poolers; any other is refreshed when it starts."""
        with self.plane.store.read() as tx:
            parent = services.get_service(tx, service_id)
            found = next((each for each in serving_sets(tx, service_id) if each.id == set_id), None)
        if parent is None or not self._is_due(parent):
            return False
        servers = [] if found is None else servers_of_set(found, parent)
        if found is None or not all(self.plane.backend.servers.inspect(node).serving for node in servers):
            return True
        try:
            for node in servers:
                self.plane.backend.servers.refresh(node)
            direct_clients(self.plane.backend, found, servers)
        except Error as error:
            _log.warning("read replica set %s keeps the poolers of an earlier release: %s", set_id, error)
        return self._is_unchanged(found, servers)

    def _is_unchanged(self, before: Service | ReplicaSet, servers: list[Server]) -> bool:
        """Tell whether a service or set is as it was refreshed, and no operation changes it.

        A pooler that was removed during that may run again, and is stopped. Where there is to be one at another port,
        it is found missing and started.
        """
        with self.plane.store.read() as tx:
            current = services.get_service(tx, before.id) or replica_sets.get_set(tx, before.id)
            found = servers_of(tx, before.id)
        if current is None:
            return False
        has_same_pooler = current.pooler_port == before.pooler_port
        if before.pooler_port is not None and not has_same_pooler:
            self.plane.backend.poolers.stop(before.id)
        return has_same_pooler and current.activity is None and not current.paused and found == servers

    def _settle(self, service_id: str) -> None:
        """Stop the poolers and balancers of a service that was paused during its refresh, which may have started them.

        While an operation is under way it is looked at again in the next round.
        """
        with self.plane.store.read() as tx:
            service, sets = services.get_service(tx, service_id), serving_sets(tx, service_id)
        if service is not None and service.activity is not None:
            return
        if service is not None and status_of(service) is Status.PAUSED:
            if service.pooler_port is not None:
                self.plane.backend.poolers.stop(service_id)
            for each in sets:  # a node is down already: what is in front of it stops with it
                self.plane.backend.servers.stop(servers_of_set(each, service)[0])
        self._unsettled.discard(service_id)
