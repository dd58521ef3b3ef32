"""Snapshots of volumes, and the forks that are made of them."""

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from ramet.backends.interface.restore import DATA_NOT_READ, NOT_ANALYZED
from ramet.backends.interface.values import Capture, Progress, Server, SnapshotFacts, Source
from ramet.backends.kubernetes import archiving, egress, manifests, names, past, retention, snapshots, wal_gaps
from ramet.backends.kubernetes.alone import LoneJobs
from ramet.backends.kubernetes.archive_manifests import Recovery
from ramet.backends.kubernetes.base_backups import base_of
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.copies import KubernetesCopies
from ramet.backends.kubernetes.resources import Volume, VolumeSnapshot
from ramet.backends.kubernetes.site import Forks
from ramet.backends.local.server.amcheck import read_all
from ramet.backends.local.server.analyze import collect
from ramet.backends.local.server.jobs import Jobs, cpu_count
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.backends.local.sql.unlogged import REPORTED_TABLES, unlogged_tables
from ramet.errors import Invalid, Unavailable
from ramet.model.gaps import Gap
from ramet.model.progress import with_warning
from ramet.model.snapshot import Snapshot, in_wal_order, lsn_number

_LOOK_SECONDS = 0.2
_COPIED = "The copy of the parent by pg_basebackup was complete, and PostgreSQL recovered from it."
_ATOMIC = "The snapshot of the volume of the parent's primary was complete, and PostgreSQL recovered from it."
_NO_ARCHIVE = "no WAL is archived, because RAMET_ARCHIVE_URL is not set: only the times of snapshots can be restored"


@dataclass(frozen=True)
class KubernetesRestore:
    """Snapshots and forks; obeys ramet.backends.interface.restore.Restore."""

    place: Place
    copies: KubernetesCopies

    @cached_property
    def jobs(self) -> LoneJobs:
        """The background jobs of this process on these servers."""
        return LoneJobs(Jobs(self.place.tunnels.root() / "jobs.lock", cpu_count()))

    def check_fork(self, source: Source, as_of: datetime | None, count: int = 1) -> None:
        """Raise Invalid for what cannot be forked, as one that needs an archive where there is none.

        Room is the storage's business.
        """
        if source.parent.upstream is not None:
            raise Invalid(
                "NOT_ON_KUBERNETES",
                f"Service {source.parent.service_id} follows {source.parent.upstream}, and cannot be forked here",
                "Fork it when it has moved, or fork its source.",
            )
        if source.target is not None or source.base_backup_id is not None:
            self._check_archive()
        self.copies.check(source)

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Make the fork's volume of a snapshot, and its Cluster, closed to clients.

        The operator adopts the volume: nothing is copied, and the server's start is the recovery. Only for another time
        than that of a snapshot it runs a recovery job.
        """
        if (base := self._base(source)) is not None:
            captured = past.capture(self.place, child, source, base)
            if captured is not None:
                return captured
            source = replace(source, snapshot_id=None, target=None)
        if self.copies.takes(source):
            return self._noted(child, source, self.place.api.get(Volume, names.volume_name(child.service_id)))
        self.place.ensure_namespace(child)
        egress.close(self.place, child.service_id)
        is_adopted = self.place.site.forks is Forks.ADOPT
        return self._adopted(child, source) if is_adopted else self._made_by_job(child, source)

    def _adopted(self, child: Server, source: Source) -> Capture:
        volume = self.place.api.get(Volume, names.volume_name(child.service_id))
        if volume is None:
            self._make_volume(child, source)
        self.place.apply(child, Phase.CLOSED, first=True, parent_id=source.parent.service_id)
        return self._noted(child, source, volume)

    def _noted(self, child: Server, source: Source, volume: Volume | None) -> Capture:
        """Return what is noted with a fork's volume; unless there is something, note what the fork begins with."""
        noted = None if volume is None else snapshots.noted(volume)
        if noted is None:
            noted = self._facts(child, source)
            note = {"metadata": {"annotations": {names.FACTS_ANNOTATION: json.dumps(noted, sort_keys=True)}}}
            self.place.api.patch(Volume, names.volume_name(child.service_id), note)
        return Capture(None, noted, needs_parent=source.snapshot_id is not None)

    def _made_by_job(self, child: Server, source: Source) -> Capture:
        """Have the operator make the volume of a snapshot, which nobody rolls forward: it may have no archive."""
        cluster = self.place.cluster_of(child.service_id)
        noted = None if cluster is None else past.noted(cluster)
        if noted is None:
            name, parent_id = self._snapshot_for(child, source), source.parent.service_id
            noted, size = self._facts(child, source), snapshots.volume_size(self.place, name)
            recovery = Recovery(snapshot=name, facts=json.dumps(noted, sort_keys=True))
            self.place.apply(child, Phase.CLOSED, first=True, recovery=recovery, parent_id=parent_id, volume_size=size)
        return Capture(None, noted, needs_parent=source.snapshot_id is not None)

    def _base(self, source: Source) -> past.Base | None:
        """Return what is rolled forward by archived WAL; None where a snapshot of now or before is all of it."""
        if source.base_backup_id is not None or source.target is not None:
            self._check_archive()
        return base_of(self.place, source)

    def _check_archive(self) -> None:
        if self.place.bucket is None:
            raise _no_past()

    def _make_volume(self, child: Server, source: Source) -> None:
        name = self._snapshot_for(child, source)
        volume = self.place.api.get(Volume, self.place.primary_of(source.parent.service_id))
        size = (volume.requested if volume else None) or snapshots.volume_size(self.place, name)
        wanted = manifests.adopted_volume(child.service_id, self.place.site, name, size)
        self.place.api.apply(Volume, wanted)

    def _snapshot_for(self, child: Server, source: Source) -> str:
        """Return the name of the snapshot that a fork begins with; one of now is taken."""
        parent_id = source.parent.service_id
        if source.snapshot_id is None:
            name = names.seed_name(child.service_id)
            where = partial(snapshots.position, self.place, source.parent, paused=source.paused)
            snapshots.take(self.place, child.service_id, name, self.place.volume_of(parent_id).metadata.name, where)
        else:
            name = names.snapshot_name(parent_id, source.snapshot_id)
            snapshots.await_taken(self.place, name)
        return name

    def _facts(self, child: Server, source: Source) -> dict[str, Any]:
        """Return what a fork of a snapshot begins with; one of now has at least what its parent had before that."""
        parent, copies = source.parent, self.copies.takes(source)
        if copies:
            cluster = self.place.cluster_of(child.service_id)
            found = None if cluster is None else past.noted(cluster)
        elif source.snapshot_id is None:
            taken = self.place.api.get(VolumeSnapshot, names.seed_name(child.service_id))
            found = None if taken is None else snapshots.begun_with(taken)
        else:
            taken = self.place.api.get(VolumeSnapshot, names.snapshot_name(parent.service_id, source.snapshot_id))
            found = None if taken is None else snapshots.noted(taken)
        found = found or snapshots.position(self.place, parent, paused=source.paused)
        return {
            "base_time": found.get("taken_at") or found["at"],
            "checks": [_COPIED if copies else _ATOMIC],
            "method": "pg_basebackup" if copies else "volume snapshot",
            **{key: found[key] for key in ("timeline", "start_lsn", "end_lsn", "size_bytes")},
        }

    def recover(self, child: Server, capture: Capture, timeout_seconds: float) -> Progress:
        """Watch the recovery job; without one leave it to the server's start, which recovers a crashed server.

        A snapshot of the parent is needed until the storage has made the volume of it.
        """
        if past.BY_JOB in capture.facts:
            return past.recover(self.place, child, capture, timeout_seconds)
        deadline = time.monotonic() + timeout_seconds
        while capture.needs_parent and not self._has_own_volume(child):
            if time.monotonic() >= deadline:
                said = "The storage has not made the volume of the snapshot yet."
                return Progress(None, with_warning(said, self.place.warnings.about(child.service_id)))
            time.sleep(_LOOK_SECONDS)
        return Progress({})

    def _has_own_volume(self, child: Server) -> bool:
        volume = self.place.api.get(Volume, names.volume_name(child.service_id))
        return volume is not None and volume.status.phase == "Bound"

    def report_on_fork(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        """Return the unlogged tables."""
        self.place.check_runs(child)
        return {"unlogged_tables": unlogged_tables(self.place.paths(child), REPORTED_TABLES)}

    def analyze(self, server: Server, timeout_seconds: float) -> str | None:
        self.place.check_runs(server)
        paths = self.place.paths(server)
        work = partial(collect, paths, Allowance())
        return self.jobs.result_of(paths, "statistics", work, timeout_seconds, code=NOT_ANALYZED)

    def verify_data(self, server: Server, timeout_seconds: float) -> str | None:
        """Check every table and index; this installs the extension amcheck."""
        paths = self.place.paths(server)
        work = partial(read_all, paths, Allowance())
        return self.jobs.result_of(paths, "verify", work, timeout_seconds, code=DATA_NOT_READ)

    def verify_archive(self, service_id: str, after: str) -> str | None:
        """Have no archive of this process's own: the archiver's plugin keeps checksums."""
        return None

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Take a snapshot of the primary's volume; what it holds is archived soon."""
        facts = snapshots.take_noted(self.place, server, snapshot_id, paused=paused)
        if facts is None:
            return None
        if self.place.bucket is not None and not paused and not server.is_standby:
            with contextlib.suppress(Unavailable):  # of a server that has just gone down nothing more is archived
                archiving.close_segment(self.place, server)
        return snapshots.facts_of(facts)

    def prepare_snapshot(self, server: Server, snapshot_id: str, timeout_seconds: float, spares: int) -> str | None:
        """Find every snapshot as quick to fork as the others."""
        return None

    def discard_preparation(self, service_id: str, snapshot_id: str) -> None:
        """Remove nothing."""

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        self.place.api.delete(VolumeSnapshot, names.snapshot_name(service_id, snapshot_id))

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        found = self.place.api.find(VolumeSnapshot, names.labels_of(service_id))
        kept = [one for one in found if one.metadata.deleted_at is None]
        ids = frozenset(one.metadata.labels.get(names.SNAPSHOT_LABEL, "") for one in kept) - {""}
        return ids if ids or self.place.cluster_of(service_id) is not None else None

    def discard_wal(self, service_id: str, oldest: Snapshot | SnapshotFacts) -> int:
        """Remove the archived WAL that neither the snapshots from `oldest` on nor base backups need."""
        return 0 if self.place.bucket is None else retention.discard_wal(self.place, service_id, oldest)

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        """Return the times between snapshots that the archive has no WAL for; without an archive, all of them."""
        if self.place.bucket is not None:
            return wal_gaps.gaps(self.place, service_id, snapshots)
        times = [one.taken_at for one in in_wal_order(snapshots)]
        found = [Gap(one, then, _NO_ARCHIVE) for one, then in pairwise(times)]
        return [*found, *(Gap(last, None, _NO_ARCHIVE) for last in times[-1:])]

    def written_since(self, server: Server, snapshot: Snapshot | SnapshotFacts) -> int | None:
        try:
            found = self.place.reports.of(server.service_id, 0)
        except Unavailable:
            return None
        return 0 if found.next_xid == snapshot.next_xid else max(1, found.wal_bytes - lsn_number(snapshot.end_lsn))


def _no_past() -> Invalid:
    return Invalid(
        "TARGET_NOT_ON_KUBERNETES",
        "Without an archive, services on Kubernetes can be restored to the times of snapshots only",
        "Fork with NOW, or with LAST_SNAPSHOT, which takes a snapshot_id,"
        " or set RAMET_ARCHIVE_URL to an S3 bucket for what is committed from then on.",
    )
