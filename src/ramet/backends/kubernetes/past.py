"""Forks as of a past time: the operator's recovery job rolls a snapshot or base backup forward by archived WAL.

Recovery stops at a record that was found before (`recovery_point`), and what it made is compared with that.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ramet.backends.interface.values import Capture, Progress, Server, SnapshotFacts, Source
from ramet.backends.kubernetes import egress, jobs, manifests, names, recovery_point, snapshots
from ramet.backends.kubernetes.archive_manifests import Recovery
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.recovery_point import RecoveryPoint, Search
from ramet.backends.kubernetes.resources import Cluster, VolumeSnapshot
from ramet.backends.kubernetes.wal_reader import WalReader
from ramet.backends.local.sql.connections import row
from ramet.errors import Failed, Unavailable
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_START_SECONDS, _LOOK_SECONDS = 0.4, 0.2
# Set in a capture's facts: the operator recovers the fork, and `recover` waits for that.
BY_JOB = "recovered_by_job"
_READ = "Each record of the archived WAL was read with its checksum, from its base to where its history ends."
_FINAL = re.compile(r"recovery ended before configured recovery target|could not locate .*checkpoint record")
_LEFT = re.compile(r"^\s*(\d+)\s+([0-9A-F]+/[0-9A-F]+)", re.MULTILINE)
_RECOVERED = """
SELECT timeline_id,
       pg_read_file(format('pg_wal/%%s.history', lpad(upper(to_hex(timeline_id)), 8, '0')), 0, 1000000, true),
       CASE WHEN %s::text IS NOT NULL THEN pg_xact_commit_timestamp(%s::text::xid) END
FROM pg_control_checkpoint()
"""


@dataclass(frozen=True)
class Base:
    """What a fork starts with: a snapshot of the parent, or a base backup in the archive."""

    facts: SnapshotFacts
    later: list[str]
    snapshot: str | None = None
    backup_id: str | None = None


def base_of_snapshot(place: Place, parent_id: str, snapshot_id: str) -> Base:
    """Return a snapshot with the ends of later ones. Raises Failed when it is gone."""
    name = names.snapshot_name(parent_id, snapshot_id)
    snapshots.await_taken(place, name)
    known = {
        one.metadata.name: snapshots.facts_of(found)
        for one in place.api.find(VolumeSnapshot, names.labels_of(parent_id))
        if (found := snapshots.noted(one)) is not None
    }
    facts = known.get(name)
    if facts is None:
        raise Failed("SNAPSHOT_LOST", f"The VolumeSnapshot {name} has no position in the WAL", "Fork once more.")
    later = sorted(one.wal_order for one in known.values() if one.wal_order > facts.wal_order)
    by_order = {one.wal_order: one.end_lsn for one in known.values()}
    return Base(facts, [by_order[each] for each in later], snapshot=name)


def bring(place: Place, child: Server, source: Source, base: Base, seconds: float) -> str | None:
    """Bring WAL that `capture` reads to where it is read, for a short time; say how far that is, None when it is there.

    Once the Cluster was made, or a snapshot of the last state was asked for, nothing is read.
    """
    if source.target is None or place.cluster_of(child.service_id) is not None or _is_of_last_state(place, child):
        return None
    place.ensure_namespace(child)
    reader = WalReader(place, child, base.facts.timeline)
    starting = reader.begin(min(seconds, _START_SECONDS))
    if starting is not None:
        return f"the pod that reads WAL starts: {starting}"
    reader.open()
    return Search(place, reader, source.parent.archive_name, base.facts, base.later).bring(source.target, seconds)


def capture(place: Place, child: Server, source: Source, base: Base) -> Capture | None:
    """Have the operator make a fork of a base and archived WAL; None: the target is the parent's last state.

    Raises Failed when that is not known, because the archive may lack WAL of a stopped parent. What was decided is
    noted with the Cluster, or the snapshot of that state is there, so that a second call decides the same.
    """
    cluster = place.cluster_of(child.service_id)
    if cluster is not None and (found := noted(cluster)) is not None:
        return _captured(found) if BY_JOB in found else None
    if _is_of_last_state(place, child):
        return None
    target, point = source.target, None
    if target is not None:
        point = _point(place, child, source, base, target)
        if point.cut.first_excluded is None and base.backup_id is None:
            if source.paused:
                recovery_point.check_archived(place, source.parent, child)
                return None
            raise Failed("WAL_DAMAGED", "The WAL does not contain the transaction that was committed last")
    facts = _facts(source, base, point)
    recovery = replace(_recovery(source, base, point), facts=json.dumps(facts, sort_keys=True))
    egress.close(place, child.service_id)
    parent_id, size = source.parent.service_id, _volume_size(place, base)
    place.apply(child, Phase.CLOSED, first=True, recovery=recovery, parent_id=parent_id, volume_size=size)
    return _captured(facts)


def _is_of_last_state(place: Place, child: Server) -> bool:
    """Tell whether a fork was found to begin with the last state of its parent, of which a snapshot was asked for."""
    return place.api.get(VolumeSnapshot, names.seed_name(child.service_id)) is not None


def _volume_size(place: Place, base: Base) -> str:
    """Return the size of the volume of a fork whose parent has none any more."""
    if base.snapshot is not None:
        return snapshots.volume_size(place, base.snapshot)
    return manifests.size_for(base.facts.size_bytes, place.site)


def recover(place: Place, child: Server, captured: Capture, timeout_seconds: float) -> Progress:
    """Watch the operator's recovery job for so long, and compare its result with what was to be recovered.

    Raises Failed, with what PostgreSQL said, when it cannot get there: the Cluster itself would never say so.
    """
    deadline = time.monotonic() + timeout_seconds
    while (found := _recovered(place, child, captured)).facts is None and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return found


def _recovered(place: Place, child: Server, captured: Capture) -> Progress:
    pod = place.primary_pod(child.service_id)
    if pod is None or not pod.runs:
        doing = jobs.progress(place, child.service_id, "Recovery from the archive", _FINAL)
        return Progress(None, "; ".join(filter(None, [doing, jobs.advance(place, child.service_id)])))
    try:
        return Progress(_verified(place, child, captured))
    except Unavailable as error:
        return Progress(None, str(error))


def _point(place: Place, child: Server, source: Source, base: Base, target: datetime) -> RecoveryPoint:
    if base.facts.taken_at > target:
        raise Failed("WRONG_BASE", f"The base was taken at {rfc3339(base.facts.taken_at)}, after {rfc3339(target)}")
    parent, archived_as = source.parent, source.parent.archive_name
    reader = WalReader(place, child, base.facts.timeline)
    place.ensure_namespace(child)
    reader.open()

    def end() -> str:
        if base.backup_id is not None or source.paused:
            return recovery_point.archived_end(place, archived_as, base.facts)
        return recovery_point.live_end(place, parent, target)

    found = Search(place, reader, archived_as, base.facts, base.later).find(target, end)
    reader.close()  # one that fails keeps what it has for the next call, and goes with the fork
    return found


def _recovery(source: Source, base: Base, point: RecoveryPoint | None) -> Recovery:
    """Return where the operator's job stops: for a target always at a record, because more is archived until it runs.

    Without the end of a transaction until the target it stops where the base ends. A base backup of a standby is
    consistent before that, so `targetImmediate` could miss what was committed while it was taken.
    """
    found = Recovery(source.parent.archive_name, snapshot=base.snapshot, base_backup_id=base.backup_id)
    if point is None:
        return found
    last = point.cut.recover_to
    lsn, exclusive = (base.facts.end_lsn, True) if last is None else (last.lsn, False)
    return replace(found, lsn=lsn, exclusive=exclusive)


def _facts(source: Source, base: Base, point: RecoveryPoint | None) -> dict[str, Any]:
    begun = "volume snapshot" if base.backup_id is None else "base backup"
    found: dict[str, Any] = {
        "base_time": rfc3339(base.facts.taken_at),
        "checks": [f"PostgreSQL recovered from the {begun} and archived WAL." if point is None else _READ],
        "method": f"{begun} and archived WAL",
        "clean": False,
        BY_JOB: True,
        **{key: getattr(base.facts, key) for key in ("timeline", "start_lsn", "end_lsn", "size_bytes")},
        "target": None if source.target is None else rfc3339(source.target),
    }
    if base.backup_id is not None:
        found["archive"] = {"base_backup": base.backup_id}
    if point is not None:
        last = point.cut.recover_to
        found |= {"cut": point.cut.facts(), "segments": [*point.segments[:1], *point.segments[1:][-1:]]}
        found["left_at"] = None if last is None else last.end_lsn
    return found


def _captured(facts: dict[str, Any]) -> Capture:
    target = facts["target"]
    of_parent = "archive" not in facts  # a base backup outlives its service
    return Capture(None if target is None else datetime.fromisoformat(target), facts, needs_parent=of_parent)


def noted(cluster: Cluster) -> dict[str, Any] | None:
    """Return what was noted with a Cluster that the operator recovers; None of others."""
    text = cluster.metadata.annotations.get(names.CAPTURE_ANNOTATION)
    return None if text is None else dict(json.loads(text))


def _verified(place: Place, child: Server, captured: Capture) -> dict[str, Any]:
    """Compare the recovered server with what was captured: its last transaction, and where it left the timeline."""
    facts = captured.facts
    cut: Mapping[str, Any] = facts.get("cut") or {"last_included": None, "first_excluded": None}
    included, excluded = cut["last_included"], cut["first_excluded"]
    xid = None if included is None else str(included["xid"])
    with place.connect(child) as connection:
        timeline, history, committed = row(connection, _RECOVERED, xid, xid)
    left = _LEFT.findall(history or "")
    wanted = None if included is None else included.get("origin_time") or included["time"]
    if timeline <= facts["timeline"] or not left:
        raise _wrong(f"It is on timeline {timeline}, which it should have left.")
    reached = left[-1][1]
    if "left_at" in facts and not _is_reached(reached, facts):
        raise _wrong(f"It left its parent's timeline at {reached}; expected {facts['left_at'] or facts['end_lsn']}.")
    known = None if committed is None else rfc3339(committed.astimezone(UTC))
    if known != wanted:
        raise _wrong(f"Transaction {xid} was committed at {known}; expected {wanted}.")
    return {
        "stop_lsn": reached,
        "timeline": timeline,
        "last_commit_time": known,
        "wal_replayed_bytes": max(0, lsn_number(reached) - lsn_number(facts["end_lsn"])),
        **(
            {} if excluded is None else {"first_excluded_time": excluded["time"], "first_excluded_xid": excluded["xid"]}
        ),
    }


def _is_reached(reached: str, facts: Mapping[str, Any]) -> bool:
    """Tell whether recovery ended behind the last record; without one, before the end of the base at the latest."""
    if facts["left_at"] is None:
        return lsn_number(reached) <= lsn_number(facts["end_lsn"])
    return lsn_number(reached) == lsn_number(facts["left_at"])


def _wrong(detail: str) -> Failed:
    return Failed("WRONG_STOP_POINT", "Recovery did not stop at the recovery target", detail)
