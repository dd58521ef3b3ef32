"""Start or stop the pooler of a service or of a read replica set, as its row asks.

step    leaves behind                                 undo
follow  the pooler that the row asks for, or none     stop it, if it was being enabled
"""

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.operations.procedure import Done, Outcome, Procedure, Wait, Work
from ramet.procedures.replicas import servers_of_set, set_of
from ramet.procedures.servers import Tools, release_holds, server_of
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import PoolerState
from ramet.store import replica_sets, services


def procedure(tools: Tools, name: ProcedureName) -> Procedure:
    """Return `pooler` or `replica_pooler`. It holds the service: nothing stops or deletes that before its end."""
    is_of_set = name is ProcedureName.REPLICA_POOLER
    update = replica_sets.update_set if is_of_set else services.update_service

    def row_of(subject: str) -> Service | ReplicaSet:
        return set_of(tools, subject) if is_of_set else tools.service(subject)

    def follow(work: Work[PoolerState]) -> Outcome:
        wanted = row_of(work.subject)
        if wanted.pooler_port is None:
            tools.backend.poolers.stop(work.subject)
        elif not wanted.paused:
            tools.backend.poolers.start(_servers(tools, wanted), wanted.pooler_port)
        if row_of(work.subject).pooler_port != wanted.pooler_port:
            return Wait(0, f"the port has changed from {wanted.pooler_port}")
        return Done(changes=lambda tx: release_holds(tx, work))

    def stop(work: Work[PoolerState]) -> None:
        if work.state.enabling:
            tools.backend.poolers.stop(work.subject)

    def failed(tx: sa.Connection, work: Work[PoolerState], _error: str) -> None:
        release_holds(tx, work)
        if work.state.enabling:
            update(tx, work.subject, pooler_port=None)

    return procedure_of(name, {"follow": follow}, {"follow": stop}, on_failed=failed)


def _servers(tools: Tools, row: Service | ReplicaSet) -> list[Server]:
    return [server_of(row)] if isinstance(row, Service) else servers_of_set(row, tools.service(row.service_id))
