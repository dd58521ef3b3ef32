"""Inspecting the servers that should be serving, and restarting those that are not: a closed one is opened."""

from dataclasses import dataclass, field

from ramet.control.duties.faults import Faults
from ramet.control.duties.replica_health import fault_of_set, record_fault, submit_restart
from ramet.control.plane import Plane
from ramet.control.poolers import submit_repair
from ramet.control.subjects import serving_services, serving_sets, should_serve
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.procedures.restarts import Restarts
from ramet.procedures.servers import server_of
from ramet.procedures.spec import submit
from ramet.procedures.state import Restartable
from ramet.store import services


@dataclass(frozen=True)
class Health:
    """The duty. It remembers when it has restarted which server."""

    plane: Plane
    _restarts: Restarts = field(default_factory=Restarts)
    _faults: Faults = field(default_factory=lambda: Faults("health"))

    def inspect(self) -> None:
        """Inspect each server that should be serving, with its pooler and replicas; restart what is down.

        One that cannot be inspected now stays as it is: nothing is known of it, least of all that it is down.
        """
        known = serving_services(self.plane.store)
        for service in known:
            with self._faults.contained(service.id):
                self._inspect_service(service)
        self._inspect_replica_sets()

    def _inspect_service(self, service: Service) -> None:
        if service.half_promoted:
            return  # only another promotion may start or open it
        observation = self.plane.backend.servers.inspect(server_of(service))
        if observation.serving and not observation.is_closed:
            self._restarts.note_serving(service.id)
            if service.down_reason is not None:
                self._record_serving(service)
            self._inspect_pooler(service)
        else:
            self._restart(service, observation.reason)

    def _restart(self, service: Service, reason: str) -> None:
        if not self._restarts.is_due(service.id):
            return
        self._restarts.log(service.id, f"server of service {service.id} is down, restarting it: {reason}")
        with self.plane.change() as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is None or not should_serve(current) or current.half_promoted:
                return
            operation_id = submit(tx, ProcedureName.RESTART, service.id, Restartable())
            services.update_service(tx, service.id, operation_id=operation_id, down_reason=reason)

    def _record_serving(self, service: Service) -> None:
        with self.plane.store.write() as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is not None and current.activity is None:
                services.update_service(tx, service.id, down_reason=None)

    def _inspect_pooler(self, service: Service) -> None:
        key = f"pooler of {service.id}"
        if service.pooler_port is None or self.plane.backend.poolers.serves(service.id):
            self._restarts.note_serving(key)
        elif self._restarts.is_due(key) and submit_repair(self.plane.store, service):
            self._restarts.log(key, f"the {key} is down, restarting it")
            self.plane.wake()

    def _inspect_replica_sets(self) -> None:
        with self.plane.store.read() as tx:
            sets = serving_sets(tx)
        parents = {service.id: service for service in serving_services(self.plane.store)} if sets else {}
        for each in sets:
            if each.service_id in parents:
                with self._faults.contained(each.id):
                    self._inspect_set(each, parents[each.service_id])

    def _inspect_set(self, replica_set: ReplicaSet, parent: Service) -> None:
        fault = fault_of_set(self.plane.backend, replica_set, parent)
        if fault is None:
            self._restarts.note_serving(replica_set.id)
            record_fault(self.plane.store, replica_set, None)
        elif not fault.needs_restart:
            record_fault(self.plane.store, replica_set, fault.reason)
        elif self._restarts.is_due(replica_set.id) and submit_restart(
            self.plane.store, replica_set, fault.reason, fault.rebuild_from
        ):
            message = f"read replica set {replica_set.id} is down, restarting it: {fault.reason}"
            self._restarts.log(replica_set.id, message)
            self.plane.wake()
