"""Give a service another host in its endpoints, and its read replica sets with it.

step     leaves behind or does                                             undo
settle   waits for forks that copy from it, then records the new host      -
apply    certificates for the new host and those of before; the server     -
         serves on, unless it has to listen elsewhere
stop     its replicas, and the server: it is down for a short time         -
boot     a server that listens where the new host is                       the server is stopped
open     READY again, with its pooler; its replicas are started then       -

A paused service gets its certificate when it is resumed; of one that is asleep the endpoint is moved, and it sleeps on.
If the change fails, the host of before is recorded again, and the observer restarts the server with that.
"""

from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.address import earlier_hosts_after, with_earlier_hosts, with_wanted_host
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.lifecycle import Change
from ramet.procedures.replicas import direct_clients, servers_of_set, stop_replicas, submit_restarts
from ramet.procedures.servers import await_settled, finish
from ramet.procedures.state import AddressState, Restartable
from ramet.store import replica_sets, services


class SetAddress(Change):
    """The steps of `set_address`."""

    name = ProcedureName.SET_ADDRESS

    def settle(self, work: Work[AddressState]) -> Outcome:
        return await_settled(self.tools, work) or Next("apply", changes=lambda tx: _record(tx, work))

    def apply(self, work: Work[AddressState]) -> Outcome:
        service, server = self.tools.service(work.subject), self.tools.server(work)
        if service.asleep:
            self.tools.backend.endpoints.fall_asleep(server)
        elif not service.paused and not self._serves_on(work, server):
            return Next("stop")
        return Done(changes=lambda tx: _finish(tx, work))

    def stop(self, work: Work[AddressState]) -> Outcome:
        stop_replicas(self.tools, work.subject)
        return super().stop(work)

    def opened(self, tx: sa.Connection, work: Work[Restartable]) -> None:
        super().opened(tx, work)
        _forget_wish(tx, work.subject)
        submit_restarts(tx, work.subject)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        found = services.get_service(tx, work.subject)
        is_paused = found is not None and found.paused
        _finish(tx, work, **({} if is_paused else {"down_reason": f"Its address could not be changed: {error}"}))
        _put(tx, work, work.state.before, work.state.earlier)

    def _serves_on(self, work: Work[AddressState], server: Server) -> bool:
        """Put the new host in force while the service and its replicas serve; False when they must be restarted."""
        backend = self.tools.backend
        if not backend.endpoints.readdress(server):
            return False
        backend.servers.open(server)
        with self.tools.store.read() as tx:
            sets = [each for each in replica_sets.live_sets(tx, work.subject) if each.ready_at is not None]
        return all(self._set_serves_on(work, each) for each in sets)

    def _set_serves_on(self, work: Work[AddressState], replica_set: ReplicaSet) -> bool:
        backend, nodes = self.tools.backend, servers_of_set(replica_set, self.tools.service(work.subject))
        if not all(backend.endpoints.readdress(node) for node in nodes):
            return False
        for node in nodes:
            backend.servers.open(node)
        direct_clients(backend, replica_set, nodes)
        return True


def _record(tx: sa.Connection, work: Work[AddressState]) -> None:
    state = work.state
    _put(tx, work, state.after, earlier_hosts_after(state.earlier, state.before, state.after))


def _put(tx: sa.Connection, work: Work[AddressState], host: str, earlier: tuple[str, ...]) -> None:
    """Give a service and its sets a host; the step may be repeated."""
    found = services.get_service(tx, work.subject, lock=True)
    if found is None:
        return
    services.update_service(tx, work.subject, host=host, settings=with_earlier_hosts(found.settings, earlier))
    for each in replica_sets.live_sets(tx, work.subject):
        replica_sets.update_set(tx, each.id, host=host)


def _finish(tx: sa.Connection, work: Work[AddressState], **columns: Any) -> None:
    finish(tx, work, **columns)
    _forget_wish(tx, work.subject)


def _forget_wish(tx: sa.Connection, service_id: str) -> None:
    found = services.get_service(tx, service_id, lock=True)
    if found is not None:
        services.update_service(tx, service_id, settings=with_wanted_host(found.settings, None))
