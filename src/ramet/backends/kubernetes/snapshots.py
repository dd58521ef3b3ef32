"""Snapshots of volumes, and what is noted of what they contain."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ramet.backends.interface.restore import SNAPSHOT_UNDER_WAY
from ramet.backends.interface.values import Server, SnapshotFacts
from ramet.backends.kubernetes import manifests, names, stopped, waking
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import SnapshotStatus, Volume, VolumeSnapshot
from ramet.errors import Failed, Unavailable, Unseen
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_TAKE_SECONDS = 120.0
# Some storage uploads what was cut, which may take hours: no thread waits for that, whoever looks, and how often.
_STORED_SECONDS = 10.0
_LONGEST_MINUTES = 24 * 60
# The controller of snapshots tries again what has failed.
_FAILING_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_WHERE = ("start_lsn", "end_lsn", "timeline", "next_xid", "size_bytes")
# What may be committed while a snapshot is cut has to count as written since.
_OF_BEFORE = ("start_lsn", "next_xid")


def take(
    place: Place, owner_id: str, name: str, volume: str, where: Callable[[], dict[str, Any]] | None = None
) -> VolumeSnapshot:
    """Take a snapshot of a volume, or find the one that an earlier call took; return it when it can be used.

    A snapshot is atomic, and a server is on one volume: the image is what a power failure at that moment would leave.
    `where` says where the WAL of the server is, which is noted as what it has `begun` with.
    Raises Unavailable while the storage has not completed it, with SNAPSHOT_UNDER_WAY once it is cut.
    """
    if place.api.get(VolumeSnapshot, name) is None:
        noted = None if where is None else {names.BEGUN_ANNOTATION: json.dumps(where(), sort_keys=True)}
        place.api.apply(VolumeSnapshot, manifests.snapshot(owner_id, place.site, name, volume, annotations=noted))
    return await_taken(place, name)


def take_noted(place: Place, server: Server, snapshot_id: str, *, paused: bool) -> dict[str, Any] | None:
    """Take a snapshot of a service, as `take` does; return what it contains, which is noted as soon as it is cut.

    None: the server should serve, and does not, so that nobody can tell where its WAL ends.

    Storage may work on a snapshot for minutes after it was cut, and what is committed then is not in it. The WAL that
    it needs begins where the server was before. One of a running server that was cut while nobody looked is taken
    again, and one of a server that is the primary no more.
    """
    name = names.snapshot_name(server.service_id, snapshot_id)
    found = place.api.get(VolumeSnapshot, name)
    if found is not None and (known := noted(found)) is not None:
        await_taken(place, name)
        return known
    cluster = place.cluster_of(server.service_id)
    if cluster is not None and cluster.is_asleep and not paused:
        return None
    if found is not None and _is_cut(found.status) and not (paused and _was_stopped(found)):
        _remove(place, name)
        found = None
    if found is None:
        begun = {} if paused else _asked(place, server)
        if begun is None:
            return None
        volume = place.volume_of(server.service_id).metadata.name
        noting = {names.BEGUN_ANNOTATION: json.dumps(begun, sort_keys=True)}
        place.api.apply(
            VolumeSnapshot, manifests.snapshot(server.service_id, place.site, name, volume, snapshot_id, noting)
        )
    cut = _await(place, name, _is_cut)
    where = _stopped_at(place, server) if paused else _asked(place, server)
    if where is None:
        return None
    facts = _facts(place, server, cut, where)
    note(place, name, facts)
    await_taken(place, name)
    return facts


def _is_cut(status: SnapshotStatus) -> bool:
    return status.creation_time is not None or status.ready_to_use is True


def _was_stopped(found: VolumeSnapshot) -> bool:
    """Tell whether a snapshot was asked for of a stopped server: as long as that is held, it is as it was then."""
    return names.BEGUN_ANNOTATION in found.metadata.annotations and not begun_with(found)


def _facts(place: Place, server: Server, cut: VolumeSnapshot, found: dict[str, Any]) -> dict[str, Any]:
    """Return what a snapshot contains that was cut just now, where the WAL of its server is `found`.

    Raises Unavailable when it is not of the primary.
    """
    begun = begun_with(cut)
    volume = place.volume_of(server.service_id).metadata.name
    is_of_primary = cut.spec.get("source") == {"persistentVolumeClaimName": volume}
    if not is_of_primary or begun.get("timeline", found["timeline"]) != found["timeline"]:
        _remove(place, cut.metadata.name)
        raise Unavailable(
            "SNAPSHOT_LATE",
            f"The VolumeSnapshot {cut.metadata.name} is taken again",
            "Another server has become the primary since it was begun.",
        )
    return {**found, **{key: begun[key] for key in _OF_BEFORE if key in begun}, "taken_at": found["at"]}


def _remove(place: Place, name: str) -> None:
    """Remove a snapshot, and return when it is gone. Raises Unavailable while it is not."""
    place.api.delete(VolumeSnapshot, name)
    deadline = time.monotonic() + _TAKE_SECONDS
    while place.api.get(VolumeSnapshot, name) is not None:
        if time.monotonic() > deadline:
            raise Unavailable("SNAPSHOT_LATE", f"The VolumeSnapshot {name} is still being removed")
        time.sleep(_LOOK_SECONDS)


def _asked(place: Place, server: Server) -> dict[str, Any] | None:
    """Return where the WAL of a server is; None of one that does not serve.

    Raises Unseen when the server cannot be asked for a reason that is not its own.
    """
    try:
        return waking.position_of(place, server)
    except Unseen:
        raise
    except Unavailable:
        return None


def _stopped_at(place: Place, server: Server) -> dict[str, Any]:
    """Return where the WAL of a stopped server ends: behind its last checkpoint, where the next record will begin.

    Recovery begins behind that checkpoint, and cannot end before. Raises Failed when it was not shut down cleanly: then
    only a recovery would find the end.
    """
    found = position(place, server, paused=True)
    if server.is_standby:
        return found
    control = stopped.read_control(place, server, server.service_id)
    if not control.is_clean:
        raise Failed(
            "NOT_CLEANLY_STOPPED",
            f"The server of service {server.service_id} was not shut down cleanly; where its WAL ends is not known",
            f"State in its control file: {control.state}. Start the service once.",
        )
    ends = {"start_lsn": control.redo_lsn, "end_lsn": control.end_lsn}
    return {**found, **ends, "timeline": control.timeline, "next_xid": control.next_xid}


def await_taken(place: Place, name: str) -> VolumeSnapshot:
    """Return a snapshot when it can be used. Raises Failed when it is gone, Unavailable while it is not complete."""
    return _await(place, name, lambda status: status.ready_to_use is True)


def volume_size(place: Place, name: str) -> str:
    """Return the size of a volume that is made of a snapshot whose own volume is gone."""
    taken = await_taken(place, name)
    found = noted(taken) or begun_with(taken)
    return manifests.size_for(found.get("size_bytes", 0), place.site, taken.status.restore_size)


def _await(place: Place, name: str, is_so: Callable[[SnapshotStatus], bool]) -> VolumeSnapshot:
    began = time.monotonic()
    while True:
        found = place.api.get(VolumeSnapshot, name)
        if found is None:
            raise Failed("SNAPSHOT_LOST", f"The VolumeSnapshot {name} is gone", "Fork from another snapshot.")
        if is_so(found.status):
            return found
        error, cut_at = found.status.error, found.status.creation_time
        waited = time.monotonic() - began
        worked = max(waited, _seconds_since(cut_at)) if cut_at and not error else 0.0
        if worked > _STORED_SECONDS:
            minutes = min(int(worked / 60), _LONGEST_MINUTES)  # each is progress, for a day: storage tells of no other
            raise Unavailable(SNAPSHOT_UNDER_WAY, f"The storage has worked on {name} for {minutes} min")
        if waited > (_FAILING_SECONDS if error else _TAKE_SECONDS):
            reason = error.message if error else "The storage driver has not answered."
            raise Unavailable("SNAPSHOT_LATE", f"The VolumeSnapshot {name} is not complete", reason)
        time.sleep(_LOOK_SECONDS)


def _seconds_since(cut_at: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(cut_at)).total_seconds()


def position(place: Place, server: Server, *, paused: bool) -> dict[str, Any]:
    """Return where the WAL of a server is; of one that does not serve, where it was last known to be.

    That is when it was asked to stop, or at its newest snapshot: of two snapshots the later one must not seem to hold
    less. Until `at` it has committed what it has: that is the time by its own clock, which may be ahead of that of this
    process. Raises Unseen when the server cannot be asked for a reason that is not its own.
    """
    asked = None if paused else _asked(place, server)
    if asked is not None:
        return asked
    known = place.api.find(VolumeSnapshot, names.labels_of(server.service_id))
    last = [waking.last_position_of(place, server), *filter(None, map(noted, known))]
    found = max(last, key=lambda one: (one["timeline"], lsn_number(one["end_lsn"])))
    now = rfc3339(datetime.now(UTC))
    return {**{key: found[key] for key in _WHERE}, "at": max(now, found.get("at", now))}


def note(place: Place, name: str, facts: dict[str, Any]) -> None:
    """Note with a snapshot what it contains."""
    annotations = {names.FACTS_ANNOTATION: json.dumps(facts, sort_keys=True)}
    place.api.patch(VolumeSnapshot, name, {"metadata": {"annotations": annotations}})


def noted(found: VolumeSnapshot | Volume) -> dict[str, Any] | None:
    """Return what was noted with a snapshot, or with the volume of a fork; None before that."""
    text = found.metadata.annotations.get(names.FACTS_ANNOTATION)
    return None if text is None else dict(json.loads(text))


def begun_with(snapshot: VolumeSnapshot) -> dict[str, Any]:
    """Return where WAL was before a snapshot was asked for; nothing if that was not noted."""
    return dict(json.loads(snapshot.metadata.annotations.get(names.BEGUN_ANNOTATION, "{}")))


def facts_of(noted: dict[str, Any]) -> SnapshotFacts:
    """Return what was noted with a snapshot as the control plane records it."""
    own = {key: noted[key] for key in _WHERE}
    return SnapshotFacts(taken_at=datetime.fromisoformat(noted["taken_at"]), **own)
