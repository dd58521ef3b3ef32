"""What is wrong with a read replica set that should be serving, and asking for it to be put right."""

from ramet.backends.base import Backend
from ramet.model.replica import ReplicaSet
from ramet.model.service import Service
from ramet.procedures.followers import RESTART, RESTART_BEGINS, servers_of_set, submit_for_set
from ramet.store import replicas, services
from ramet.store.database import Store


def fault_of_set(backend: Backend, replica_set: ReplicaSet, parent: Service) -> str | None:
    """Return why a set does not serve as it should; None when it does."""
    for server in servers_of_set(replica_set, parent):
        observation = backend.observe(server)
        if not observation.serving:
            return observation.reason
    if len(replica_set.nodes) > 1 and not backend.balancer_serves(replica_set.id):
        return "The balancer of its nodes is not running."
    if replica_set.pooler_port is not None and not backend.pooler_serves(replica_set.id):
        return "Its pooler is not running."
    return replica_set.down_reason


def submit_restart(store: Store, replica_set: ReplicaSet, reason: str) -> None:
    """Submit that a set is started again, unless an operation is at it, or at its service."""
    with store.write() as tx:
        parent = services.get_service(tx, replica_set.service_id, lock=True)
        current = replicas.get_set(tx, replica_set.id)
        if parent is None or current is None or parent.activity is not None or parent.paused:
            return
        if current.activity is None and current.deleted_at is None and current.failed_at is None:
            replicas.update_set(tx, current.id, down_reason=reason)
            submit_for_set(tx, current, RESTART, RESTART_BEGINS, {})
