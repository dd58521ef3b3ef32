"""Create, resize, restart and delete a read replica set.

    create_replicas   replicate    volumes with the service's data            undo: destroy
                      boot         servers that follow it                     (destroy)
                      publish      an open endpoint: active                   -
    resize_replicas   stop         no server runs for a short time            -
                      boot, publish as above, with the new size               -
    restart_replicas  boot, publish as above                                  -
    delete_replicas   destroy      no endpoint, servers and volumes           - (the data is gone)

Each holds the service: it is not stopped, started or deleted before they end.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.replicas import servers_of_set, set_of
from ramet.procedures.servers import PATIENCE_SECONDS, Tools, retry_if_server_killed
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import DeleteReplicasState, ResizeReplicasState, Restartable
from ramet.store import operations, replica_sets, services


@dataclass(frozen=True)
class Replicas:
    """The steps of the procedures on sets."""

    tools: Tools

    def replicate(self, work: Work[Restartable]) -> Outcome:
        if not all(self.tools.backend.replicas.create(server) for server in self._servers(work)):
            return Wait(0.1, "the server to follow is not serving")
        return Next("boot")

    def stop(self, work: Work[ResizeReplicasState]) -> Outcome:
        for server in self._servers(work):
            self.tools.backend.servers.stop(server)
        return Next("boot")

    def join(self, work: Work[Restartable]) -> Outcome:
        """Start the nodes, and wait until every node receives WAL."""
        booted = self.boot(work)
        inspect = self.tools.backend.servers.inspect
        if isinstance(booted, Next) and not all(inspect(server).follows for server in self._servers(work)):
            return Wait(0.02, "no WAL is streamed yet")
        return booted

    def boot(self, work: Work[Restartable]) -> Outcome:
        found = self._servers(work)
        for server in found:
            self.tools.backend.servers.start(server, clients=True)
        for server in found:
            readiness = self.tools.backend.servers.await_ready(server, PATIENCE_SECONDS / len(found))
            if not readiness.ready:
                return Wait(0, f"{server.service_id}: {readiness.progress}")
        return Next("publish")

    def publish(self, work: Work[Restartable]) -> Outcome:
        found, replica_set = self._servers(work), set_of(self.tools, work.subject)
        killed = retry_if_server_killed(work, lambda: self._open_all(found), again="boot")
        if killed is not None:
            return killed
        if len(found) > 1:
            self.tools.backend.replicas.start_balancer(found, replica_set.port)
        if replica_set.pooler_port is not None:
            self.tools.backend.poolers.start(found, replica_set.pooler_port)
        ready_at = replica_set.ready_at or self.tools.clock()
        return Done(changes=lambda tx: _finish(tx, work, ready_at=ready_at, down_reason=None))

    def _open_all(self, found: list[Server]) -> None:
        for server in found:
            self.tools.backend.servers.open(server)

    def destroy(self, work: Work[Any]) -> None:
        for server in self._servers(work):
            self.tools.backend.servers.destroy(server.service_id)

    def delete(self, work: Work[DeleteReplicasState]) -> Outcome:
        canceled = work.state.after
        with self.tools.store.read() as tx:
            if canceled is not None and operations.is_under_way(tx, canceled):
                return Wait(0.05, f"operation {canceled}")
        self.destroy(work)
        return Done(changes=lambda tx: _finish(tx, work, deleted_at=self.tools.clock()))

    def mark_create_failed(self, tx: sa.Connection, work: Work[Restartable], error: str) -> None:
        _finish(tx, work, failed_at=self.tools.clock(), failure=error)

    def _servers(self, work: Work[Any]) -> list[Server]:
        replica_set = set_of(self.tools, work.subject)
        return servers_of_set(replica_set, self.tools.service(replica_set.service_id))


def procedures(tools: Tools) -> list[Procedure]:
    """Return the four procedures on sets."""
    steps = Replicas(tools)
    serving = {"boot": steps.boot, "publish": steps.publish}
    return [
        procedure_of(
            ProcedureName.CREATE_REPLICAS,
            {"replicate": steps.replicate, **serving, "boot": steps.join},
            {"replicate": steps.destroy},
            on_failed=steps.mark_create_failed,
        ),
        procedure_of(ProcedureName.RESIZE_REPLICAS, {"stop": steps.stop, **serving}, on_failed=_restore_size),
        procedure_of(ProcedureName.RESTART_REPLICAS, serving, on_failed=_stays_down),
        procedure_of(ProcedureName.DELETE_REPLICAS, {"destroy": steps.delete}, on_failed=_stays_undeleted),
    ]


def _stays_undeleted(tx: sa.Connection, work: Work[DeleteReplicasState], error: str) -> None:
    _finish(tx, work, down_reason=f"It could not be deleted: {error}")


def _restore_size(tx: sa.Connection, work: Work[ResizeReplicasState], error: str) -> None:
    _finish(tx, work, down_reason=f"It could not be resized: {error}")
    cpu_millis, memory_gbs = work.state.before
    replica_sets.update_set(tx, work.subject, cpu_millis=cpu_millis, memory_gbs=memory_gbs)


def _stays_down(tx: sa.Connection, work: Work[Restartable], error: str) -> None:
    _finish(tx, work, down_reason=error)


def _finish(tx: sa.Connection, work: Work[Any], **columns: Any) -> None:
    services.drop_holds(tx, work.operation_id)
    replica_sets.finish_operation(tx, work.subject, work.operation_id, **columns)
