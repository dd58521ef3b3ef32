"""How a server is stopped and started again: by hibernation of its Cluster, which keeps the volume."""

import json
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Cluster, Pod
from ramet.backends.local.sql.connections import row
from ramet.errors import Failed, Unavailable, Unseen
from ramet.model.timestamps import rfc3339

_HEALTHY = "Cluster in healthy state"
_STOP_SECONDS = 120.0
# What is noted as the last segment of a server that is stopped: it writes on until it ends.
UNREAD = "unread"
_POSITION = """
SELECT timeline_id, redo_lsn::text,
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_database_size_sum.bytes, clock_timestamp()
FROM pg_control_checkpoint(), (SELECT sum(pg_database_size(oid))::bigint AS bytes FROM pg_database) pg_database_size_sum
"""
# The operator stops the pods of a Cluster that is not healthy only if it says that this has begun already.
_BEGUN = {
    "type": names.HIBERNATION,
    "status": "False",
    "reason": "DeletingPods",
    "message": "Ramet stops a server that is not healthy",
}


def position_of(place: Place, server: Server) -> dict[str, Any]:
    """Return where the WAL of a serving server is now, and what time it is there. Raises Unavailable."""
    with place.connect(server) as connection:
        timeline, redo, current, next_xid, size, at = row(connection, _POSITION)
    found = {"timeline": timeline, "start_lsn": redo, "end_lsn": current, "next_xid": next_xid, "size_bytes": size}
    return {**found, "at": rfc3339(at.astimezone(UTC))}


def last_position_of(place: Place, server: Server) -> dict[str, Any]:
    """Return where the WAL of a stopped server was when it was asked to stop."""
    cluster = place.cluster_of(server.service_id)
    noted = cluster.metadata.annotations.get(names.FACTS_ANNOTATION) if cluster else None
    unknown = {"timeline": 1, "start_lsn": "0/0", "end_lsn": "0/0", "next_xid": 0, "size_bytes": 0}
    return dict(json.loads(noted)) if noted else unknown


def stop(place: Place, server: Server) -> None:
    """Stop a server cleanly, and return when its pods are gone. Raises Unavailable while that takes longer."""
    service_id, name = server.service_id, names.cluster_name(server.service_id)
    cluster = place.cluster_of(service_id)
    if cluster is None:
        raise Failed("VOLUME_LOST", f"The Cluster of service {service_id} is gone", "It cannot be stopped.")
    if not cluster.is_asleep:
        place.api.patch(Cluster, name, {"metadata": {"annotations": _asleep(place, server)}})
    has_begun = any(one.type == names.HIBERNATION for one in cluster.status.conditions)  # the phase does not say so
    if not has_begun and cluster.status.phase != _HEALTHY:
        _begin(place, cluster)
    _await(lambda: _is_stopped(place, service_id), f"The server of service {service_id} is still stopping")


def _asleep(place: Place, server: Server) -> dict[str, str | None]:
    """Return the annotations of a server that is to stop; where its WAL is then, or nothing of an earlier stop."""
    if server.is_standby:
        return {names.HIBERNATION: "on"}
    try:
        noted = json.dumps(position_of(place, server), sort_keys=True)
    except Unseen:
        raise
    except Unavailable:
        noted = None
    return {names.HIBERNATION: "on", names.FACTS_ANNOTATION: noted, names.LAST_SEGMENT_ANNOTATION: UNREAD}


def _begin(place: Place, cluster: Cluster) -> None:
    others = [one for one in cluster.status.conditions if one.type != names.HIBERNATION]
    known = [{"type": one.type, "status": one.status, "reason": one.reason or "Unknown", "message": one.message}
             for one in others]  # fmt: skip
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [{**one, "lastTransitionTime": stamp} for one in [*known, _BEGUN]]
    place.api.patch_status(cluster.metadata.name, {"conditions": conditions})


def _is_stopped(place: Place, service_id: str) -> bool:
    cluster = place.clusters.get(names.cluster_name(service_id))
    left = [one for one in place.pods.of_service(service_id) if not _reads(one, service_id)]
    return cluster is not None and cluster.is_hibernated and not left


def _reads(pod: Pod, service_id: str) -> bool:
    """Tell by the name of a pod whether it only reads: those that an earlier release has left have no label for it."""
    return pod.metadata.name.startswith((names.reader_name(service_id), f"{names.cluster_name(service_id)}-volume"))


def _await(is_so: Callable[[], bool], still: str) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise Unavailable("SERVER_STOPPING", still)
        time.sleep(0.05)
