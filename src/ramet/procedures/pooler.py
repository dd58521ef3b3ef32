"""Start or stop the pooler of a service or of a read replica set, as its row asks.

step    leaves behind                                 undo
follow  the pooler that the row asks for, or none     stop it, if it was being enabled
"""

from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.operations.procedure import Done, Outcome, Wait, Work
from ramet.procedures.replicas import servers_of_set, set_of
from ramet.procedures.servers import Steps, Tools, release_holds, server_of
from ramet.procedures.state import PoolerState
from ramet.store import replica_sets, services


class Pooler(Steps):
    """The step of `pooler`. It holds the service: nothing stops or deletes that before its end."""

    name = ProcedureName.POOLER

    def follow(self, work: Work[PoolerState]) -> Outcome:
        wanted, poolers = self._row(work.subject), self.tools.backend.poolers
        if wanted.pooler_port is None:
            poolers.stop(work.subject)
        elif not wanted.paused:
            poolers.start(_servers(self.tools, wanted), wanted.pooler_port)
        if self._row(work.subject).pooler_port != wanted.pooler_port:
            return Wait(0, f"the port has changed from {wanted.pooler_port}")
        return Done(changes=lambda tx: release_holds(tx, work))

    def undo_follow(self, work: Work[PoolerState]) -> None:
        if work.state.enabling:
            self.tools.backend.poolers.stop(work.subject)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        release_holds(tx, work)
        if work.state.enabling:
            self._forget_port(tx, work.subject)

    def _row(self, subject: str) -> Service | ReplicaSet:
        return self.tools.service(subject)

    def _forget_port(self, tx: sa.Connection, subject: str) -> None:
        services.update_service(tx, subject, pooler_port=None)


class ReplicaPooler(Pooler):
    """The step of `replica_pooler`."""

    name = ProcedureName.REPLICA_POOLER

    def _row(self, subject: str) -> Service | ReplicaSet:
        return set_of(self.tools, subject)

    def _forget_port(self, tx: sa.Connection, subject: str) -> None:
        replica_sets.update_set(tx, subject, pooler_port=None)


def _servers(tools: Tools, row: Service | ReplicaSet) -> list[Server]:
    return [server_of(row)] if isinstance(row, Service) else servers_of_set(row, tools.service(row.service_id))
