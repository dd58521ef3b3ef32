"""Base backups and WAL to an S3 server and back, beside plain puts and gets of the same bytes to the same server."""

import os
import shutil
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import obstore
from obstore.store import S3Store

from bench.report import Report
from harness.object_stores import ObjectStore
from ramet.archive import layout
from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket, open_bucket
from ramet.archive.wal import WalArchive

_MB = 1_000_000
_CHUNK_BYTES, _AT_ONCE = 16 * 1024**2, 2  # as Ramet's own uploads


@dataclass
class Transfers:
    """What is measured on one S3 server: the same data directory and the same segments on each."""

    report: Report
    store: ObjectStore
    place: Path
    size_mb: int

    def measure(self, info: BackupInfo, tree: Path, segments: Sequence[Path], repeats: int) -> None:
        """Add the rows and ratios of this server."""
        with patch.dict(os.environ, self.store.environment()):
            bucket = open_bucket(f"{self.store.url}/transfers")
        samples: dict[str, list[float]] = {}
        for number in range(repeats):
            for name, milliseconds in self._one(bucket, info, tree, f"server-{number}").items():
                samples.setdefault(name, []).append(milliseconds)
        for name, values in samples.items():
            self.report.add(f"{self.store.name}:{name}", self.size_mb, values)
        tree_mb = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) / _MB
        stored_mb = sum(found.size_bytes for found in bucket.objects(layout.base_prefix("server-0"))) / _MB
        self._rates(samples, tree_mb, stored_mb)
        self._ship(bucket, segments)

    def _one(self, bucket: Bucket, info: BackupInfo, tree: Path, server: str) -> dict[str, float]:
        backups, info = BaseBackups(bucket, server), replace(info, server_name=server)
        found = dict[str, float]()
        _measure(found, "upload", lambda: backups.upload(info, tree))
        target = self.place / "restored"
        _measure(found, "restore", lambda: restore(backups, info, target))
        shutil.rmtree(target)
        client, names = self.store.client("transfers"), list[str]()
        names += [found.key for found in bucket.objects(layout.base_prefix(server)) if found.key.endswith(".tar.gz")]
        _measure(found, "raw_get", lambda: _get(client, names, target))
        contents = [bytes(obstore.get(client, name).bytes()) for name in names]
        _measure(found, "raw_put", lambda: _put(client, f"{server}/raw", *contents))
        plain = self.place / "plain.tar"
        with tarfile.open(plain, "w") as tar:
            tar.add(tree, arcname=".")
        _measure(found, "plain_put", lambda: _put(client, f"{server}/plain", plain))
        _measure(found, "plain_get", lambda: _get(client, [f"{server}/plain"], target))
        target.unlink()
        plain.unlink()
        return found

    def _rates(self, samples: dict[str, list[float]], tree_mb: float, stored_mb: float) -> None:
        """Add MB/s of the data directory, for `raw` of the compressed objects, and ratios of times."""
        ratios, name = self.report.ratios, self.store.name
        for method, values in samples.items():
            megabytes = stored_mb if method.startswith("raw") else tree_mb
            unit = "mb_per_cpu_second" if method.endswith(":cpu") else "mb_per_second"
            ratios[f"{name}:{method.removesuffix(':cpu')}_{unit}"] = round(1000 * megabytes / min(values), 1)
        ratios[f"{name}:stored_to_data"] = round(stored_mb / tree_mb, 3)
        for ours, plain in (("upload", "put"), ("restore", "get")):
            self.report.ratio(f"{name}:{ours}_to_plain_{plain}", min(samples[ours]), min(samples[f"plain_{plain}"]))
            self.report.ratio(f"{name}:{ours}_to_raw_{plain}", min(samples[ours]), min(samples[f"raw_{plain}"]))

    def _ship(self, bucket: Bucket, segments: Sequence[Path]) -> None:
        """Add what one segment takes to be shipped: time, CPU of this process, bytes in the store."""
        wal, seconds, cpu = WalArchive(bucket, "segments"), list[float](), list[float]()
        for path in segments:
            cpu_before, begun = time.process_time(), time.perf_counter()
            wal.upload(path)
            seconds.append(1000 * (time.perf_counter() - begun))
            cpu.append(1000 * (time.process_time() - cpu_before))
        stored = [found.size_bytes for found in bucket.objects(layout.wal_prefix("segments"))]
        self.report.add(f"{self.store.name}:segment", 16, seconds)
        self.report.add(f"{self.store.name}:segment:cpu", 16, cpu)
        self.report.ratios[f"{self.store.name}:segment_stored_mb"] = round(sum(stored) / len(stored) / _MB, 2)


def restore(backups: BaseBackups, info: BackupInfo, target: Path) -> None:
    """Download and unpack a base backup."""
    target.mkdir()
    for number, checksum in enumerate(backups.parts(info.backup_id)):
        backups.unpack(info.backup_id, number, checksum, target, (os.getuid(), os.getgid()))


def _measure(found: dict[str, float], name: str, act: Callable[[], object]) -> None:
    """Note how many milliseconds something took, and how many of CPU in this process."""
    cpu, begun = time.process_time(), time.perf_counter()
    act()
    found[name] = 1000 * (time.perf_counter() - begun)
    found[f"{name}:cpu"] = 1000 * (time.process_time() - cpu)


def _put(client: S3Store, key: str, *contents: Path | bytes) -> None:
    for content in contents:
        obstore.put(client, key, content, use_multipart=True, chunk_size=_CHUNK_BYTES, max_concurrency=_AT_ONCE)


def _get(client: S3Store, keys: Sequence[str], target: Path) -> None:
    with target.open("wb") as file:
        for key in keys:
            for piece in obstore.get(client, key).stream(min_chunk_size=1024**2):
                file.write(piece)
