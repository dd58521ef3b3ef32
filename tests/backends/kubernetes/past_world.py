"""A service whose past is forked in tests, over an API server in memory."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ramet.archive import layout
from ramet.archive.backup_info import BackupInfo
from ramet.archive.object_store import Bucket, open_bucket
from ramet.backends.interface.values import SnapshotFacts, Source
from ramet.backends.kubernetes import archiving, names, waking
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.resources import Cluster
from ramet.backends.kubernetes.store_access import StoreAccess
from ramet.model.timestamps import rfc3339
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED

FORK = replace(SHARED, service_id="forkfork12", port=15433)
NAME, FORKED = "ramet-abcdefghij", "ramet-forkfork12"
SECOND = timedelta(seconds=1)
_ZONE = "the zone of the reader"
STOPPED = {"timeline": 1, "start_lsn": "0/2000028", "end_lsn": "0/2000100", "next_xid": 700, "size_bytes": 9}
# PostgreSQL's last checkpoint of an orderly stop is the first record of a segment.
CONTROL = """
Database system identifier:           7712037298637759942
Database cluster state:               shut down
Latest checkpoint location:           0/3000028
Latest checkpoint's REDO location:    0/3000028
Latest checkpoint's REDO WAL file:    000000010000000000000003
Latest checkpoint's TimeLineID:       1
Latest checkpoint's NextXID:          0:750
Time of latest checkpoint:            Wed Nov 25 09:23:48 2026
"""


@dataclass
class World:
    """A paused service with a snapshot from before, and what its archive has."""

    found: FakeCluster
    backend: KubernetesBackend
    bucket: Bucket
    base: SnapshotFacts
    log: str = ""
    control: str = CONTROL

    def archive(self, number: int, timeline: int = 1) -> None:
        """Put a segment into the archive."""
        name = f"{timeline:08X}00000000{number:08X}"
        self.bucket.write(layout.wal_key(SHARED.service_id, name), gzip.compress(name.encode()))

    def commits(self, *ends: tuple[int, str, timedelta]) -> None:
        """Let pg_waldump print these commits: xid, LSN, and the time after that of the snapshot."""
        self.log = "".join(
            f"rmgr: Transaction len (rec/tot):     34/    34, tx: {xid:10}, lsn: {lsn}, prev 0/02000028,"
            f" desc: COMMIT {self.base.taken_at + after:%Y-%m-%d %H:%M:%S.%f} {_ZONE}\n"
            for xid, lsn, after in ends
        )

    def log_in(self, zone: str) -> str:
        """Return what pg_waldump prints with a TZ."""
        return self.log.replace(_ZONE, zone[1:-2])

    def back_up(self, size_bytes: int = 9) -> BackupInfo:
        """Put a base backup into the archive that ends where and when the snapshot does."""
        at, end, first = self.base.taken_at, self.base.end_lsn, "000000010000000000000002"
        info = BackupInfo(
            "20260101T000000", "cloud", 1, 180000, 1, at, at, "0/2000028", end, first, first, size_bytes, ""
        )
        self.bucket.write(layout.info_key(SHARED.service_id, info.backup_id), info.dump())
        return info

    def source(self, after: timedelta) -> Source:
        """Return the source of a fork as of a time after that of the snapshot."""
        return Source(SHARED, paused=True, snapshot_id="snapshot01", target=self.base.taken_at + after)

    def recovery(self) -> dict[str, Any]:
        """Return what the operator was told to recover."""
        found: dict[str, Any] = self.found.objects["clusters", FORKED]["spec"]["bootstrap"]["recovery"]
        return found


@contextmanager
def past_world(archive: Path, **changes: Any) -> Iterator[World]:
    """Make the world, with its archive in a directory."""
    with in_cluster(archive=StoreAccess("s3://bucket/here"), **changes) as (found, place):
        place.__dict__["bucket"] = open_bucket(f"file://{archive}")
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        noted = {names.FACTS_ANNOTATION: json.dumps(STOPPED)}
        place.api.patch(Cluster, NAME, {"metadata": {"annotations": noted}})
        serving = {**STOPPED, "at": rfc3339(datetime.now(UTC))}
        with patch.object(archiving, "close_segment"), patch.object(waking, "position_of", return_value=serving):
            base = backend.restore.take_snapshot(SHARED, "snapshot01", paused=False)
        assert base is not None
        made = World(found, backend, place.bucket, base)  # type: ignore[arg-type]

        def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
            if "control" in command:
                return made.control, "", 0
            if "read" not in command:
                return "", "", 0
            zone = next(word for word in command if word.startswith("<"))
            return f"{made.log_in(zone)}status: 0\n", "", 0

        found.answer = answer
        yield made
