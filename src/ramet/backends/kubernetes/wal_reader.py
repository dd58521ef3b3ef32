"""Reads archived WAL in a pod of its own, which has pg_waldump in the version of the service.

The pod gets the segments from this process, some at a time: it needs neither a network nor rights. What was found is
noted beside it, so that another process, or another pod, goes on there.
"""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive_manifests, names
from ramet.backends.kubernetes.archive_manifests import WAL_DIRECTORY
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.manifests import Manifest
from ramet.backends.kubernetes.resources import ConfigMap, Pod
from ramet.backends.local.wal.segment import Segment, begins_record, segment_named
from ramet.backends.local.wal.waldump import Stretch, ends_arguments, secret_zone, stretch_of
from ramet.errors import Failed, Unavailable

_READ_SECONDS = 600.0
# Beside a complete segment is a file with its own name, marked if a record begins in it: another process may continue
# where this one was killed, and after a failover the segment may be of another timeline.
_BEGINS = "+"
_UNPACK = """
path=$1 mark=$2; shift 2; for old in "$@"; do rm -f "$old" "$old".*; done
rm -f "$path".*; gzip --decompress --stdout >"$path.part" && mv "$path.part" "$path" && : >"$path.$mark"
"""
# One ends by itself after an hour.
_MOST_READERS = 10
# Its exit status and errors come after what it prints: they are no failure of the pod. Identifiers of prepared
# transactions may be in any encoding, and what a pod prints must be UTF-8.
_READ = r"""
export LC_ALL=C PATH="/usr/lib/postgresql/$1/bin:$PATH"; zone=$2; shift 2
{ errors=$(TZ="$zone" pg_waldump "$@" 2>&1 >&3); echo "status: $?"; echo "$errors"; } 3>&1 | tr -d '\200-\377'
"""
# The shell reports other ones for a program that it cannot start (126, 127), or that a signal kills (from 129 on).
_ENDED_BY_ITSELF = ("0", "1")


@dataclass
class WalReader:
    """Reads WAL for one fork, until `close`. `base_timeline` is the one that the segments are read as.

    `begun` are the numbers of its segments in which a record begins.
    """

    place: Place
    child: Server
    base_timeline: int
    begun: set[int] = field(default_factory=set)
    _there: set[Segment] = field(default_factory=set)

    @property
    def _pod(self) -> str:
        return names.reader_name(self.child.service_id)

    def begin(self, seconds: float) -> str | None:
        """Start the pod, unless it runs, and watch it for so many seconds; say how far it is, None when it runs.

        Raises Failed when too many pods have ended.
        """
        self._count_ended()
        return self.place.begin_pod(self._wanted(), seconds)

    def open(self) -> None:
        """Start the pod, unless it runs, and see what it has, and what was noted.

        Raises Unavailable when it does not start, Failed when too many pods have ended.
        """
        self._count_ended()
        self.place.start_pod(self._wanted(), "that reads WAL")
        listed = self.place.api.run(self._pod, ["ls", WAL_DIRECTORY]).split()
        for mark in (one.partition(".")[2] for one in listed):
            self._mark(mark)

    def note(self, text: str) -> None:
        """Note what was found, for a later `noted`."""
        self._note(read=text)

    def noted(self) -> str | None:
        """Return what was noted, also of a pod that has ended."""
        return self._notes().get("read")

    def _count_ended(self) -> None:
        pod = self.place.api.get(Pod, self._pod)
        if pod is None or not pod.has_ended or pod.metadata.deleted_at is not None:
            return
        ended = int(self._notes().get("ended", 0)) + 1
        self._note(ended=str(ended))
        if ended >= _MOST_READERS:
            raise Failed(
                "WAL_READER_ENDED",
                f"{ended} pods that read WAL for service {self.child.service_id} ended before all was read",
                f"{pod.progress}. Fork as of a time nearer to a snapshot or base backup.",
            )

    def _notes(self) -> dict[str, str]:
        known = self.place.api.find(ConfigMap, names.labels_of(self.child.service_id))
        return next((one.data for one in known if one.metadata.name == self._pod), {})

    def _note(self, **noted: str) -> None:
        manifest = archive_manifests.wal_notes(self.child.service_id, {**self._notes(), **noted})
        self.place.api.apply(ConfigMap, manifest)

    def _wanted(self) -> Manifest:
        return archive_manifests.wal_reader(self.child.service_id, self.child.pg_major, self.place.site)

    def fetch(self, archive: WalArchive, segments: Sequence[Segment], seconds: float) -> bool:
        """Give the pod segments of the archive, each as one of the base's timeline; False: not all within that time.

        At least one is given, and earlier ones are removed. Raises Failed for what is lost.
        """
        deadline = time.monotonic() + seconds
        for n, segment in enumerate(one for one in segments if one not in self._there):
            if n and time.monotonic() > deadline:
                return False
            stored = archive.compressed(segment.name)
            mark = segment.name + _BEGINS * begins_record(archive.decompressed(segment.name, stored))
            passed = {one for one in self._there if one.number < segments[0].number}
            command = ["sh", "-c", _UNPACK, "unpack", self._path(segment), mark, *map(self._path, passed)]
            self.place.api.run(self._pod, command, io.BytesIO(stored), timeout_seconds=_READ_SECONDS)
            self._there -= passed
            self._mark(mark)
        return True

    def _mark(self, mark: str) -> None:
        """Take the mark of a segment that the pod has."""
        segment = segment_named(mark.removesuffix(_BEGINS))
        if segment is not None:
            self._there.add(segment)
        if segment is not None and mark.endswith(_BEGINS):
            self.begun.add(segment.number)

    def _path(self, segment: Segment) -> str:
        return f"{WAL_DIRECTORY}/{Segment(self.base_timeline, segment.number).name}"

    def count(self) -> int:
        """Return how many segments the pod has."""
        return len(self._there)

    def ends(self, start: int, end: int) -> Stretch:
        """Return the ends of transactions between two LSNs, whose segments were fetched.

        Raises Unavailable when pg_waldump could not be started, or was killed.
        """
        zone, words = secret_zone(), ends_arguments(WAL_DIRECTORY, self.base_timeline, start, end)
        command = ["sh", "-c", _READ, "read", str(self.child.pg_major), zone, *words]
        printed = self.place.api.run(self._pod, command, timeout_seconds=_READ_SECONDS)
        ends, _, rest = printed.rpartition("status: ")
        status, _, errors = rest.partition("\n")
        if status not in _ENDED_BY_ITSELF:
            shown = status if status.isdigit() else "unknown"
            raise Unavailable(
                "WAL_NOT_READ",
                f"pg_waldump in the pod {self._pod} ended with exit status {shown} before it had read the WAL",
                errors.strip(),
            )
        return stretch_of(ends, zone, None if status == "0" else errors, start, end)

    def close(self) -> None:
        """Remove the pod and what was noted."""
        self.place.api.delete(ConfigMap, self._pod)
        self.place.api.delete(Pod, self._pod, grace_seconds=0)
