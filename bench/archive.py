"""`archive`: what the off-host archive costs, beside plain puts and gets of the same bytes to the same S3 server."""

import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from bench.api import Api, Timed, connect
from bench.bare import Bare, bare
from bench.data import fill, load
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report, percentile
from bench.stall import transactions_in, within
from bench.transfers import Transfers
from harness.object_stores import ObjectStore, object_store, stores_here
from harness.waiting import eventually
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.progress import BaseProgress, read_progress, write_progress
from ramet.backends.local.restore import snapshots
from ramet.backends.local.wal.segment import segments_in

_PREFIX = "bench"
_SEGMENTS = 16
_LAG_SECONDS, _LOOK_SECONDS = 120.0, 0.25
_CALM_SECONDS = 10.0
_BASE_SECONDS = 1800.0
_OLD = timedelta(days=8)
# pgbench's rows compress to a tenth; these do to a half, as text does.
_TEXT = "CREATE TABLE text AS SELECT md5(n::text) || md5((-n)::text) AS content FROM generate_series(1, %s) AS n"
_TEXT_ROWS_A_MB = 10_000


def bench_archive(options: Options) -> Report:
    """Throughput of base backups up and down, CPU of WAL, the lag under load, and what the parent feels."""
    report, names = Report("archive"), stores_here()
    size_mb = options.sizes[0] if options.sizes else (100 if options.quick else 1000)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ramet-bench-")))
        stores = [stack.enter_context(object_store(name, place)) for name in names]
        variables = {"RAMET_ARCHIVE_URL": f"{stores[0].url}/{_PREFIX}", "RAMET_SNAPSHOT_SECONDS": "86400"}
        driver = options.drivers[0] if options.drivers else "auto"
        running = stack.enter_context(instance(options.data, driver, **variables, **stores[0].environment()))
        subject = _Subject(running, stack.enter_context(bare()), stores[0], size_mb)
        subject.prepare()
        subject.measure_load(report, options.repeats or 3)
        [info, *_] = subject.backups.complete()
        tree = snapshots.data_of(subject.paths, snapshots.newest(subject.paths))
        segments = [subject.paths.archive / one.name for one in segments_in(subject.paths.archive)][-_SEGMENTS:]
        for store in stores:
            Transfers(report, store, place, size_mb).measure(info, tree, segments, options.repeats or 3)
    report.notes.append(f"S3 servers: {', '.join(names)}; the lag and the parent are measured with {names[0]}.")
    return report


class _Subject:
    """A service that is archived, and what it takes to observe it."""

    def __init__(self, running: Instance, means: Bare, store: ObjectStore, size_mb: int) -> None:
        self.running, self.means, self.size_mb = running, means, size_mb
        self.api: Api = running.api()
        self.parent: Timed = self.api.create("parent", environment="PROD")
        bucket = Bucket(f"{store.url}/{_PREFIX}", store.client(_PREFIX))
        self.backups = BaseBackups(bucket, self.parent.service_id)

    @property
    def paths(self) -> ServicePaths:
        return self.running.paths(self.parent.service_id)

    def prepare(self) -> None:
        """Fill the service, and wait for a base backup of what it holds."""
        fill(self.means.programs, self.parent.service, self.size_mb // 2)
        with connect(self.parent.service) as connection:
            connection.execute(_TEXT % (self.size_mb // 2 * _TEXT_ROWS_A_MB))
        self.back_up()

    def back_up(self) -> tuple[float, float]:
        """Let a base backup be uploaded; return when that began and ended, in seconds since the epoch."""
        known = len(self.backups.complete())
        self.api.snapshot(self.parent.service_id)
        eventually(lambda: read_progress(self.paths, BaseProgress).newest is not None, "a base backup", 0.05)
        self._make_due()
        uploads = self.paths.root / "upload"
        eventually(uploads.exists, "the upload", 0.01)
        begun = time.time()
        eventually(lambda: len(self.backups.complete()) > known, "the base backup", 0.05, seconds=_BASE_SECONDS)
        return begun, time.time()

    def _make_due(self) -> None:
        """Let the newest base backup look older than a week."""
        progress = read_progress(self.paths, BaseProgress)
        if progress.newest is None:
            raise AssertionError("BUG: no base backup yet")
        newest = replace(progress.newest, taken_at=progress.newest.taken_at - _OLD)
        write_progress(self.paths, BaseProgress(newest=newest))

    def measure_load(self, report: Report, repeats: int) -> None:
        """Add the lag under load, and the parent's transactions with a base backup being streamed and without."""
        windows: dict[str, list[tuple[float, float]]] = {"without_base": [], "with_base": []}
        with tempfile.TemporaryDirectory() as logs:
            with load(self.means.programs, self.parent.service, Path(logs) / "log"):
                lags = self._lags()
                for _ in range(repeats):
                    begun = time.time()
                    time.sleep(_CALM_SECONDS)
                    windows["without_base"].append((begun, time.time()))
                    windows["with_base"].append(self.back_up())
            transactions = transactions_in(Path(logs))
        report.add("lag", self.size_mb, [1000 * lag for lag in lags])
        report.add("lag:p99", self.size_mb, [1000 * percentile(lags, 0.99)])
        for name, spans in windows.items():
            milliseconds = within(transactions, spans)
            report.add(name, self.size_mb, milliseconds)
            report.add(f"{name}:p99", self.size_mb, [percentile(milliseconds, 0.99)])
        report.ratio("with_base_p99_to_without", report.median("with_base:p99"), report.median("without_base:p99"))

    def _lags(self) -> list[float]:
        """Return the announced lag in seconds, asked again and again under load."""
        deadline, found = time.monotonic() + _LAG_SECONDS, list[float]()
        while time.monotonic() < deadline:
            lag = self.api.call("GET", f"/{self.parent.service_id}/archive")["lag_seconds"]
            if lag is not None:
                found.append(float(lag))
            time.sleep(_LOOK_SECONDS)
        return found
