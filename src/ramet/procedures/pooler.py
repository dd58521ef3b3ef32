"""Start or stop the pooler of a service or of a read replica set, as its row asks.

step    leaves behind                                 undo
follow  the pooler that the row asks for, or none     stop it, if it was being enabled
"""

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from ramet.backends.interface.values import Server
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.operations.procedure import Done, Outcome, Procedure, Wait, Work
from ramet.procedures.replicas import servers_of, set_of
from ramet.procedures.servers import Tools, release_holds, server_of
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import PoolerState
from ramet.store import replicas, services

Row = Service | ReplicaSet


def pooler(tools: Tools) -> Procedure:
    """Return the procedure `pooler`. It holds its service, so that nothing stops or deletes that before its end."""
    return _following(
        tools,
        ProcedureName.POOLER,
        tools.service,
        lambda service_id: [server_of(tools.service(service_id))],
        lambda tx, service_id: services.update_service(tx, service_id, pooler_port=None),
    )


def replica_pooler(tools: Tools) -> Procedure:
    """Return the procedure `replica_pooler`. It holds the set's service."""
    return _following(
        tools,
        ProcedureName.REPLICA_POOLER,
        lambda set_id: set_of(tools, set_id),
        lambda set_id: servers_of(tools, set_id),
        lambda tx, set_id: replicas.update_set(tx, set_id, pooler_port=None),
    )


def _following(
    tools: Tools,
    name: ProcedureName,
    row_of: Callable[[str], Row],
    servers: Callable[[str], Sequence[Server]],
    remove: Callable[[sa.Connection, str], None],
) -> Procedure:
    def follow(work: Work[PoolerState]) -> Outcome:
        wanted = row_of(work.subject)
        if wanted.pooler_port is None:
            tools.backend.poolers.stop(work.subject)
        elif not wanted.paused:
            tools.backend.poolers.start(servers(work.subject), wanted.pooler_port)
        if row_of(work.subject).pooler_port != wanted.pooler_port:
            return Wait(0, f"the port has changed from {wanted.pooler_port}")
        return Done(changes=lambda tx: release_holds(tx, work))

    def stop(work: Work[PoolerState]) -> None:
        if work.state.enabling:
            tools.backend.poolers.stop(work.subject)

    def failed(tx: sa.Connection, work: Work[PoolerState], _error: str) -> None:
        release_holds(tx, work)
        if work.state.enabling:
            remove(tx, work.subject)

    return procedure_of(name, {"follow": follow}, {"follow": stop}, on_failed=failed)
