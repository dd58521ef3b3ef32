"""Create, resize, restart and delete a read replica set; bring its pooler to what its row says.

    create_replicas   replicate    volumes with the service's data            undo: destroy
                      boot         servers that follow it                     (destroy)
                      publish      an open endpoint: active                   -
    resize_replicas   stop         nothing serves for a moment                -
                      boot, publish as above, with the new size               -
    restart_replicas  boot, publish as above                                  -
    delete_replicas   destroy      endpoint, servers and volumes are gone     - (there is no way back)
    replica_pooler    follow       the pooler that the row asks for, or none  undo: end it, where it was being enabled

Each holds the service meanwhile: it is not stopped, started or deleted before they end.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.replica import ReplicaSet
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.followers import servers_of_set
from ramet.procedures.servers import PATIENCE_SECONDS, Tools, let_go, outliving_kills
from ramet.store import operations, replicas, services


@dataclass(frozen=True)
class Replicas:
    """The steps of the procedures on sets."""

    tools: Tools

    def replicate(self, work: Work) -> Outcome:
        if not all(self.tools.backend.replicas.create(server) for server in self._servers(work)):
            return Wait(0.1, "the server to follow is not serving")
        return Next("boot")

    def stop(self, work: Work) -> Outcome:
        for server in self._servers(work):
            self.tools.backend.servers.stop(server)
        return Next("boot")

    def join(self, work: Work) -> Outcome:
        """Boot, and come back until every node follows: the hold on the service is no burden before there is a set."""
        booted = self.boot(work)
        inspect = self.tools.backend.servers.inspect
        if isinstance(booted, Next) and not all(inspect(server).follows for server in self._servers(work)):
            return Wait(0.02, "no WAL is streamed yet")
        return booted

    def boot(self, work: Work) -> Outcome:
        found = self._servers(work)
        for server in found:
            self.tools.backend.servers.start(server, clients=True)
        for server in found:
            readiness = self.tools.backend.servers.await_ready(server, PATIENCE_SECONDS / len(found))
            if not readiness.ready:
                return Wait(0, f"{server.service_id}: {readiness.progress}")
        return Next("publish")

    def publish(self, work: Work) -> Outcome:
        found, replica_set = self._servers(work), self._set(work)
        killed = outliving_kills(work, lambda: self._open_all(found), again="boot")
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

    def destroy(self, work: Work) -> None:
        for server in self._servers(work):
            self.tools.backend.servers.destroy(server.service_id)

    def delete(self, work: Work) -> Outcome:
        called_off = work.state.get("after")
        with self.tools.store.read() as tx:
            if called_off is not None and operations.is_under_way(tx, called_off):
                return Wait(0.05, f"operation {called_off}")
        self.destroy(work)
        return Done(changes=lambda tx: _finish(tx, work, deleted_at=self.tools.clock()))

    def follow(self, work: Work) -> Outcome:
        wanted = self._set(work)
        if wanted.pooler_port is None:
            self.tools.backend.poolers.stop(wanted.id)
        elif not wanted.paused:
            self.tools.backend.poolers.start(self._servers(work), wanted.pooler_port)
        if self._set(work).pooler_port != wanted.pooler_port:
            return Wait(0, f"the port is {wanted.pooler_port} no more")
        return Done(changes=lambda tx: let_go(tx, work))

    def end_pooler(self, work: Work) -> None:
        if work.state["enabling"]:
            self.tools.backend.poolers.stop(work.subject)

    def unborn(self, tx: sa.Connection, work: Work, error: str) -> None:
        _finish(tx, work, failed_at=self.tools.clock(), failure=error)

    def _servers(self, work: Work) -> list[Server]:
        replica_set = self._set(work)
        return servers_of_set(replica_set, self.tools.service(replica_set.service_id))

    def _set(self, work: Work) -> ReplicaSet:
        with self.tools.store.read() as tx:
            found = replicas.get_set(tx, work.subject)
        if found is None:
            raise AssertionError(f"BUG: replica set {work.subject} has an operation but no row")
        return found


def replica_procedures(tools: Tools) -> list[Procedure]:
    """Return the five procedures on sets."""
    steps = Replicas(tools)
    serving = {"boot": steps.boot, "publish": steps.publish}
    return [
        Procedure(
            name="create_replicas",
            first="replicate",
            steps={"replicate": steps.replicate, **serving, "boot": steps.join},
            undo={"replicate": steps.destroy},
            on_failed=steps.unborn,
        ),
        Procedure(name="resize_replicas", first="stop", steps={"stop": steps.stop, **serving}, on_failed=_restore_size),
        Procedure(name="restart_replicas", first="boot", steps=serving, on_failed=_stays_down, unasked=True),
        Procedure(name="delete_replicas", first="destroy", steps={"destroy": steps.delete}, on_failed=_stays_undeleted),
        Procedure(
            name="replica_pooler",
            first="follow",
            steps={"follow": steps.follow},
            undo={"follow": steps.end_pooler},
            on_failed=_without_pooler,
        ),
    ]


def _stays_undeleted(tx: sa.Connection, work: Work, error: str) -> None:
    _finish(tx, work, down_reason=f"It could not be deleted: {error}")


def _without_pooler(tx: sa.Connection, work: Work, _error: str) -> None:
    let_go(tx, work)
    if work.state["enabling"]:
        replicas.update_set(tx, work.subject, pooler_port=None)


def _restore_size(tx: sa.Connection, work: Work, error: str) -> None:
    cpu_millis, memory_gbs = work.state["before"]
    reason = f"It could not be resized: {error}"
    _finish(tx, work, down_reason=reason, cpu_millis=cpu_millis, memory_gbs=memory_gbs)


def _stays_down(tx: sa.Connection, work: Work, error: str) -> None:
    _finish(tx, work, down_reason=error)


def _finish(tx: sa.Connection, work: Work, **columns: Any) -> None:
    services.drop_holds(tx, work.operation_id)
    replicas.finish_operation(tx, work.subject, work.operation_id, **columns)
