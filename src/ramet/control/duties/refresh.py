"""Servers and poolers that an earlier release started get what this release gives to new ones."""

import logging
from dataclasses import dataclass, field
from datetime import datetime

from ramet.backends.interface.backend import Backend
from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.subjects import serving_services, serving_sets
from ramet.errors import Error
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.procedures.replicas import direct_clients, servers_of_set
from ramet.procedures.servers import server_of

_log = logging.getLogger(__name__)


@dataclass
class Refresh:
    """The duty: each service that is older than this process is refreshed once."""

    plane: Plane
    _begun: datetime = field(init=False)
    _done: set[str] = field(default_factory=set)
    _faults: Faults = field(default_factory=lambda: Faults("upgrades"))

    def __post_init__(self) -> None:
        """Remember when this process began."""
        self._begun = self.plane.clock()

    def apply(self) -> None:
        """Refresh the serving services that were not refreshed yet, with their read replica sets."""
        for service in serving_services(self.plane.store):
            is_older = service.ready_at is not None and service.ready_at < self._begun
            is_due = is_older and service.down_reason is None and service.id not in self._done
            if is_due:
                with self._faults.contained(service.id):
                    self._refresh(service)

    def _refresh(self, service: Service) -> None:
        if self.plane.backend.servers.refresh(server_of(service)):
            self._done.add(service.id)
            self._refresh_sets(service)

    def _refresh_sets(self, service: Service) -> None:
        with self.plane.store.read() as tx:
            sets = serving_sets(tx, service.id)
        for each in sets:
            refresh_set(self.plane.backend, each, service)


def refresh_set(backend: Backend, replica_set: ReplicaSet, parent: Service) -> None:
    """Refresh a set that serves, and its poolers; any other is refreshed when it starts."""
    nodes = servers_of_set(replica_set, parent)
    if not all(backend.servers.inspect(node).serving for node in nodes):
        return
    try:
        for node in nodes:
            backend.servers.refresh(node)
        direct_clients(backend, replica_set, nodes)
    except Error as error:
        _log.warning("read replica set %s keeps the poolers of an earlier release: %s", replica_set.id, error)
