"""Create, resize, restart and delete a read replica set.

    create_replicas   replicate    volumes with the service's data            undo: destroy
                      boot         servers that follow it                     (destroy)
                      publish      an open endpoint: active                   -
    resize_replicas   stop         no server runs for a short time            -
                      boot, publish as above, with the new size               -
    restart_replicas  boot, publish as above                                  -
    rebuild_replicas  discard      no volumes: the service's data was replaced  -
                      replicate    as above; nodes that have data keep it     undo: destroy those without
                      boot, publish as above                                  (destroy)
    delete_replicas   destroy      no endpoint, servers and volumes           - (the data is gone)

Each holds the service: it is not stopped, started or deleted before they end.
"""

from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.replicas import direct_clients, servers_of_set, set_of
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Steps,
    await_others,
    retry_if_server_killed,
)
from ramet.procedures.state import DeleteReplicasState, ResizeReplicasState, Restartable
from ramet.store import operations, replica_sets, services


class _Replicas(Steps):
    """What the procedures on sets share."""

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
        direct_clients(self.tools.backend, replica_set, found)
        ready_at = replica_set.ready_at or self.tools.clock()
        return Done(changes=lambda tx: _finish(tx, work, ready_at=ready_at, down_reason=None))

    def _open_all(self, found: list[Server]) -> None:
        for server in found:
            self.tools.backend.servers.open(server)

    def destroy_all(self, work: Work[Any]) -> None:
        for server in self._servers(work):
            self.tools.backend.servers.destroy(server.service_id)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        _finish(tx, work, down_reason=error)

    def _servers(self, work: Work[Any]) -> list[Server]:
        replica_set = set_of(self.tools, work.subject)
        return servers_of_set(replica_set, self.tools.service(replica_set.service_id))


class _NewReplicas(_Replicas):
    """What the procedures share that copy the service's data."""

    def replicate(self, work: Work[Restartable]) -> Outcome:
        if not all(self.tools.backend.replicas.create(server) for server in self._servers(work)):
            return Wait(0.1, "the server to follow is not serving")
        return Next("boot")

    def boot(self, work: Work[Restartable]) -> Outcome:
        """Start the nodes, and wait until every node receives WAL."""
        booted = super().boot(work)
        inspect = self.tools.backend.servers.inspect
        if isinstance(booted, Next) and not all(inspect(server).follows for server in self._servers(work)):
            return Wait(0.02, "no WAL is streamed yet")
        return booted


class CreateReplicas(_NewReplicas):
    """The steps of `create_replicas`."""

    name = ProcedureName.CREATE_REPLICAS
    undo_replicate = _Replicas.destroy_all

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        _finish(tx, work, failed_at=self.tools.clock(), failure=error)


class ResizeReplicas(_Replicas):
    """The steps of `resize_replicas`."""

    name = ProcedureName.RESIZE_REPLICAS

    def stop(self, work: Work[ResizeReplicasState]) -> Outcome:
        for server in self._servers(work):
            self.tools.backend.servers.stop(server)
        return Next("boot")

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        _finish(tx, work, down_reason=f"It could not be resized: {error}")
        cpu_millis, memory_gbs = work.state.before
        replica_sets.update_set(tx, work.subject, cpu_millis=cpu_millis, memory_gbs=memory_gbs)


class RestartReplicas(_Replicas):
    """The steps of `restart_replicas`."""

    name = ProcedureName.RESTART_REPLICAS


class RebuildReplicas(_NewReplicas):
    """The steps of `rebuild_replicas`."""

    name = ProcedureName.REBUILD_REPLICAS

    def discard(self, work: Work[Restartable]) -> Outcome:
        self.destroy_all(work)
        return Next("replicate")

    def undo_replicate(self, work: Work[Restartable]) -> None:
        """Remove what was made for nodes that have no data: a later attempt must not begin with an old snapshot.

        The first node has the endpoint of the set, which stays for the other ones.
        """
        servers = self._servers(work)
        lost = [server for server in servers if self.tools.backend.servers.inspect(server).is_lost]
        for server in lost:
            if server.service_id != work.subject or len(lost) == len(servers):
                self.tools.backend.servers.destroy(server.service_id)


class DeleteReplicas(_Replicas):
    """The step of `delete_replicas`."""

    name = ProcedureName.DELETE_REPLICAS

    def destroy(self, work: Work[DeleteReplicasState]) -> Outcome:
        canceled = work.state.after
        with self.tools.store.read() as tx:
            if canceled is not None and operations.is_under_way(tx, canceled):
                return await_others(self.tools, work, f"operation {canceled}")
        self.destroy_all(work)
        return Done(changes=lambda tx: _finish(tx, work, deleted_at=self.tools.clock()))

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        _finish(tx, work, down_reason=f"It could not be deleted: {error}")


def _finish(tx: sa.Connection, work: Work[Any], **columns: Any) -> None:
    services.drop_holds(tx, work.operation_id)
    replica_sets.finish_operation(tx, work.subject, work.operation_id, **columns)
