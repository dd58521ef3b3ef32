"""Reads archived WAL in a pod of its own, which has pg_waldump in the version of the service.

The pod gets the segments from this process: it needs neither a network nor rights.
"""

import io
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive_manifests, names
from ramet.backends.kubernetes.archive_manifests import WAL_DIRECTORY
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.manifests import Manifest
from ramet.backends.kubernetes.resources import Pod
from ramet.backends.local.wal.segment import Segment, segment_named
from ramet.backends.local.wal.waldump import Stretch, ends_arguments, secret_zone, stretch_of
from ramet.model.snapshot import lsn_number

_READ_SECONDS = 600.0
# Beside a complete segment is a file with its own name: another process may continue where this one was killed, and
# after a failover the segment may be of another timeline.
_UNPACK = 'rm -f "$1".*; gzip --decompress --stdout >"$1.part" && mv "$1.part" "$1" && : >"$1.$2"'
# Its exit status and errors come after what it prints: they are no failure of the pod. Identifiers of prepared
# transactions may be in any encoding, and what a pod prints must be UTF-8.
_READ = r"""
export LC_ALL=C PATH="/usr/lib/postgresql/$1/bin:$PATH"; zone=$2; shift 2
{ errors=$(TZ="$zone" pg_waldump "$@" 2>&1 >&3); echo "status: $?"; echo "$errors"; } 3>&1 | tr -d '\200-\377'
"""


@dataclass
class WalReader:
    """Reads WAL for one fork, until `close`. `base_timeline` is the one that the segments are read as."""

    place: Place
    child: Server
    base_timeline: int
    _there: set[Segment] = field(default_factory=set)

    @property
    def _pod(self) -> str:
        return names.reader_name(self.child.service_id)

    def begin(self, seconds: float) -> str | None:
        """Start the pod, unless it runs, and watch it for so many seconds; say how far it is, None when it runs."""
        return self.place.begin_pod(self._wanted(), seconds)

    def open(self) -> None:
        """Start the pod, unless it runs, and see what it has. Raises Unavailable when it does not start."""
        self.place.start_pod(self._wanted(), "that reads WAL")
        listed = self.place.api.run(self._pod, ["ls", WAL_DIRECTORY]).split()
        own = (segment_named(one.partition(".")[2]) for one in listed)
        self._there |= {one for one in own if one is not None}

    def _wanted(self) -> Manifest:
        return archive_manifests.wal_reader(self.child.service_id, self.child.pg_major, self.place.site)

    def fetch(self, archive: WalArchive, segments: Iterable[Segment], seconds: float = math.inf) -> bool:
        """Give the pod segments of the archive, each as one of the base's timeline; False: not all within that time.

        At least one is given. Raises Failed for what is lost.
        """
        deadline = time.monotonic() + seconds
        for n, segment in enumerate(one for one in segments if one not in self._there):
            if n and time.monotonic() > deadline:
                return False
            stored = archive.compressed(segment.name)
            archive.decompressed(segment.name, stored)
            path = f"{WAL_DIRECTORY}/{Segment(self.base_timeline, segment.number).name}"
            command = ["sh", "-c", _UNPACK, "unpack", path, segment.name]
            self.place.api.run(self._pod, command, io.BytesIO(stored), timeout_seconds=_READ_SECONDS)
            self._there.add(segment)
        return True

    def count(self) -> int:
        """Return how many segments the pod has."""
        return len(self._there)

    def ends(self, start_lsn: str, end_lsn: str) -> Stretch:
        """Return the ends of transactions between two LSNs, whose segments were fetched."""
        start, end = lsn_number(start_lsn), lsn_number(end_lsn)
        if start >= end:
            return Stretch([], None)
        zone, words = secret_zone(), ends_arguments(WAL_DIRECTORY, self.base_timeline, start, end)
        command = ["sh", "-c", _READ, "read", str(self.child.pg_major), zone, *words]
        printed = self.place.api.run(self._pod, command, timeout_seconds=_READ_SECONDS)
        ends, _, rest = printed.rpartition("status: ")
        status, _, errors = rest.partition("\n")
        return stretch_of(ends, zone, None if status == "0" else errors, start, end)

    def close(self) -> None:
        """Remove the pod."""
        self.place.api.delete(Pod, self._pod, grace_seconds=0)
