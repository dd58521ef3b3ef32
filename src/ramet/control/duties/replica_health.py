"""What is wrong with a read replica set that should be serving, and the restart, or the new copies, that mend it."""

from dataclasses import dataclass

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import NOT_FOLLOWING
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.procedures.replicas import servers_of_set, submit_for_set
from ramet.procedures.state import Restartable
from ramet.store import operations, replica_sets, services
from ramet.store.database import Store


@dataclass(frozen=True)
class Fault:
    """Why a set does not serve as it should, and whether a restart may help.

    With `rebuild_from`, a step of `rebuild_replicas`, nodes of it need new copies of their service first.
    """

    reason: str
    needs_restart: bool = True
    rebuild_from: str = ""


def fault_of_set(backend: Backend, replica_set: ReplicaSet, parent: Service) -> Fault | None:
    """Return what is wrong with a set; None when it serves as it should."""
    seen = [backend.servers.inspect(server) for server in servers_of_set(replica_set, parent)]
    lost = [observation for observation in seen if observation.is_lost]
    if lost:
        keeps_others = any(observation.serving and observation.follows for observation in seen)
        # The last attempt to copy the service may have failed: that is the reason then.
        reason = replica_set.down_reason or lost[0].reason
        return Fault(reason, rebuild_from="replicate" if keeps_others else "discard")
    for observation in seen:
        if not observation.serving or observation.is_closed:
            return Fault(observation.reason)
    if len(replica_set.nodes) > 1 and not backend.replicas.balancer_serves(replica_set.id):
        return Fault("The balancer of its nodes is not running.")
    if replica_set.pooler_port is not None and not backend.poolers.serves(replica_set.id):
        return Fault("Its pooler is not running.")
    if not all(observation.follows for observation in seen):
        return Fault(NOT_FOLLOWING, needs_restart=False)
    if replica_set.down_reason in (None, NOT_FOLLOWING):
        return None
    return Fault(replica_set.down_reason)


def record_fault(store: Store, replica_set: ReplicaSet, reason: str | None) -> None:
    """Record why a set does not serve, or that it does (None), unless it has an operation under way."""
    if replica_set.down_reason == reason:
        return
    with store.write() as tx:
        services.get_service(tx, replica_set.service_id, lock=True)
        current = replica_sets.get_set(tx, replica_set.id)
        if current is not None and current.activity is None:
            replica_sets.update_set(tx, current.id, down_reason=reason)


def submit_restart(store: Store, replica_set: ReplicaSet, reason: str, rebuild_from: str = "") -> bool:
    """Submit a restart of a set, or new copies; False when it, its pooler or its service has an operation under way."""
    with store.write() as tx:
        parent = services.get_service(tx, replica_set.service_id, lock=True)
        current = replica_sets.get_set(tx, replica_set.id)
        if parent is None or current is None or parent.activity is not None or parent.paused:
            return False
        if current.activity is not None or current.deleted_at is not None or current.failed_at is not None:
            return False
        has_changed = current.pooler_port != replica_set.pooler_port
        if has_changed or operations.under_way(tx, current.id, ProcedureName.REPLICA_POOLER):
            return False
        replica_sets.update_set(tx, current.id, down_reason=reason)
        name = ProcedureName.REBUILD_REPLICAS if rebuild_from else ProcedureName.RESTART_REPLICAS
        submit_for_set(tx, current, name, Restartable(), rebuild_from)
        return True
