"""What runs on the host, or is being started there. What is being resized counts with the larger one of both sizes."""

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from ramet.model.capacity import memory_needed_mbs
from ramet.model.environment import Environment
from ramet.model.procedures import ProcedureName
from ramet.model.size import Size
from ramet.store.due import UNDER_WAY
from ramet.store.resizes import resizes_under_way
from ramet.store.tables import is_live, operation, replica_set, service


def _under_way(*names: ProcedureName) -> sa.Select[tuple[str]]:
    return sa.select(operation.c.id).where(UNDER_WAY, operation.c.procedure.in_([name.value for name in names]))


_LIVE = is_live(service)
# A restore claims its service late, and starts it also when that is paused, and then its replicas.
_restored = sa.select(operation.c.subject).where(UNDER_WAY, operation.c.procedure == ProcedureName.RESTORE.value)
_RESTORED = service.c.paused & service.c.id.in_(_restored)
# A paused service that an operation works on is being resumed, or is gone soon.
_RUNNING = _LIVE & (service.c.paused.is_(False) | service.c.operation_id.is_not(None) | _RESTORED)
_LIVE_SET = is_live(replica_set)
_OF_SETS = replica_set.join(service, service.c.id == replica_set.c.service_id)

# These start the server of a paused service, and then its replicas; of a service that runs they restart it.
_resuming = _under_way(ProcedureName.START, ProcedureName.RESIZE, ProcedureName.SET_SLEEP, ProcedureName.SET_WAL_LEVEL)
_RESUMED = service.c.paused & service.c.operation_id.in_(_resuming)
# Nothing runs of a service that is restarted because it was down, as all are after a restart of the host.
_REVIVED = service.c.operation_id.in_(_under_way(ProcedureName.RESTART))
# A set with a reason why it is down is mended beside nodes that may run, whose room is in use already.
_restarting = _under_way(ProcedureName.RESTART_REPLICAS, ProcedureName.REBUILD_REPLICAS)
_RESTARTED = replica_set.c.operation_id.in_(_restarting) & replica_set.c.down_reason.is_(None)

# Statements that each request for a server sends are built once.
_new = service.c.ready_at.is_(None) | _RESUMED | _REVIVED
_services = sa.select(sa.func.count()).select_from(service).where(_LIVE, _new)
# A copy has no row of its own. A drill waits until there is room for one.
_copies = sa.select(sa.func.count()).select_from(_restored.subquery())
_starting = sa.select(_services.scalar_subquery(), _copies.scalar_subquery())
_starting_sets = sa.select(replica_set.c.nodes).select_from(_OF_SETS)
_ARE_STARTING = replica_set.c.ready_at.is_(None) | _RESUMED | _RESTORED | _RESTARTED
_starting_sets = _starting_sets.where(_LIVE, _LIVE_SET, _ARE_STARTING)
_size = (service.c.environment, service.c.memory_gbs)
_by_size = sa.select(*_size, sa.func.count()).where(_RUNNING).group_by(*_size)
_of_set = (replica_set.c.nodes, replica_set.c.environment, replica_set.c.memory_gbs)
_running_sets = sa.select(replica_set.c.name, replica_set.c.project_id, service.c.made_by, *_of_set)
_running_sets = _running_sets.select_from(_OF_SETS).where(_RUNNING, _LIVE_SET)


class Running(NamedTuple):
    """A service whose server runs, or a read replica set, with all its nodes; of no project while nobody has it."""

    name: str
    project_id: str | None
    made_by: str | None
    servers: int
    memory_mbs: int


def count_starting(tx: sa.Connection) -> int:
    """Return how many servers are being made or started, of all projects."""
    services, copies = tx.execute(_starting).one()
    return int(services + copies) + sum(len(nodes) for nodes in tx.scalars(_starting_sets))


def committed_mbs(tx: sa.Connection) -> int:
    """Return the memory that all servers which run may come to need."""
    grouped = tx.execute(_by_size)
    of_services = sum(int(count) * _needed(environment, memory) for environment, memory, count in grouped)
    growth = sum(
        _needed(one.environment, one.most_memory_gbs) - _needed(one.environment, one.memory_gbs)
        for one in resizes_under_way(tx).values()
    )
    return of_services + growth + sum(one.memory_mbs for one in _sets(tx))


def list_running(tx: sa.Connection) -> Sequence[Running]:
    """Return all that runs or is being started, of all projects."""
    owner = sa.case((service.c.unclaimed.is_(False), service.c.project_id))
    columns = (service.c.id, service.c.name, owner, service.c.made_by, *_size)
    resizes = resizes_under_way(tx)
    own = []
    for service_id, name, project, key, environment, memory in tx.execute(sa.select(*columns).where(_RUNNING)):
        resizing = resizes.get(service_id)
        most = memory if resizing is None else resizing.most_memory_gbs
        own.append(Running(name, project, key, 1, _needed(environment, most)))
    return [*own, *_sets(tx)]


def _sets(tx: sa.Connection) -> Sequence[Running]:
    return [
        Running(name, project, key, len(nodes), len(nodes) * _needed(environment, memory))
        for name, project, key, nodes, environment, memory in tx.execute(_running_sets)
    ]


def _needed(environment: str, memory_gbs: int | None) -> int:
    return memory_needed_mbs(Size(memory_gbs, memory_gbs), Environment(environment))
