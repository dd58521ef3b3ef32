"""`pitr`: time against the distance in WAL, beside PostgreSQL alone that replays the same WAL."""

import shutil
import sqlite3
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.api import Api, Timed, connect
from bench.bare import Bare, bare
from bench.data import fill, load
from bench.instance import Instance, instance
from bench.options import Options
from bench.report import Report
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.wal.segment import segments_in

_QUICK_MB = (32, 100)
_ALL_MB = (32, 100, 1000)
_SIZE_MB = 100
_MIB = 1024**2
_CHECKPOINT_MB = 48


def bench_pitr(options: Options) -> Report:
    """Forks to a target time that is so much WAL after the newest snapshot."""
    report = Report("pitr")
    variables = {"RAMET_SNAPSHOT_SECONDS": "86400", "RAMET_SNAPSHOT_WAL_MBS": "100000"}
    with instance(options.data, *options.drivers[:1], **variables) as running, bare() as means:
        api = running.api()
        parent = api.create("parent")
        fill(means.programs, parent.service, _SIZE_MB)
        for distance_mb in options.sizes or (_QUICK_MB if options.quick else _ALL_MB):
            api.snapshot(parent.service_id)
            restore_time = _write(means, parent, distance_mb)
            _measure(running, means, api, parent, restore_time, distance_mb, report, options.repeats or 3)
            report.ratio(
                f"pitr_{distance_mb}mb_to_bare_redo",
                report.median("pitr", distance_mb),
                report.median("bare_redo", distance_mb),
            )
    return report


def _write(means: Bare, parent: Timed, distance_mb: int) -> datetime:
    """Load the parent until it has written so much WAL; return the time then."""
    with connect(parent.service) as connection, load(means.programs, parent.service) as writers:
        query = b"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
        first = last = whole = connection.execute(query).fetchall()[0][0]
        while last - first < distance_mb * _MIB:
            time.sleep(0.05)
            if last - whole > _CHECKPOINT_MB * _MIB:  # then pages are written to WAL whole again: it grows much faster
                connection.execute("CHECKPOINT")
                whole = last
            if writers.poll() is not None:
                raise RuntimeError(f"pgbench ended with {writers.returncode} before {distance_mb} MB were written")
            last = connection.execute(query).fetchall()[0][0]
        restore_time = datetime.now(UTC)
        time.sleep(0.3)
    return restore_time


def _measure(
    running: Instance,
    means: Bare,
    api: Api,
    parent: Timed,
    restore_time: datetime,
    distance_mb: int,
    report: Report,
    repeats: int,
) -> None:
    samples: dict[str, list[float]] = {}
    for _ in range(repeats):
        fork = api.fork(parent.service_id, "PITR", restore_time)
        samples.setdefault("pitr", []).append(fork.answered_ms)
        steps = running.milliseconds(fork.service_id)
        redo = 1000 * _redo_seconds(running.data, fork.service_id)
        parts = {**steps, "redo": redo, "start_and_end_of_recovery": steps["recover"] - redo}
        for part, milliseconds in parts.items():
            samples.setdefault(f"pitr:{part}", []).append(milliseconds)
        api.delete(fork.service_id)
        samples.setdefault("bare_redo", []).append(_bare_redo(running, means, parent, restore_time))
    for method, values in samples.items():
        report.add(method, distance_mb, values)


def _bare_redo(running: Instance, means: Bare, parent: Timed, restore_time: datetime) -> float:
    """Return how long PostgreSQL alone recovers from the snapshot to that time; placing the files is not counted."""
    paths = running.paths(parent.service_id)
    copy = running.pool / "bench"
    taken_at = {note.parent: note.stat().st_mtime for note in paths.snapshots.glob("*/base.json")}
    base = max((path for path in taken_at if taken_at[path] < restore_time.timestamp()), key=taken_at.__getitem__)
    subprocess.run(["cp", "-a", "--reflink=auto", str(base / "data"), str(copy)], check=True)
    try:
        _place_wal(paths, copy)
        (copy / "recovery.signal").touch()
        (copy / "postgresql.conf").write_text("")
        (copy / "pg_hba.conf").write_text("local all all trust\n")
        means.own(copy)
        target = restore_time.isoformat(" ", "microseconds")
        settings = ("restore_command=false", f"recovery_target_time={target}", "recovery_target_action=promote")
        usual = ("max_prepared_transactions=100", "max_locks_per_transaction=128", "max_worker_processes=20")
        more = ("hot_standby=off", "recovery_init_sync_method=syncfs", "track_commit_timestamp=on")
        return means.started(copy, (*settings, *usual, *more))
    finally:
        shutil.rmtree(copy)
        (copy.parent / "bench.log").unlink(missing_ok=True)


def _place_wal(paths: ServicePaths, copy: Path) -> None:
    for directory in (paths.data / "pg_wal", paths.archive):
        for segment in segments_in(directory):
            source, target = directory / segment.name, copy / "pg_wal" / segment.name
            if segment >= min(segments_in(copy / "pg_wal")):
                subprocess.run(["cp", "--reflink=auto", str(source), str(target)], check=True)


def _redo_seconds(data: Path, service_id: str) -> float:
    with sqlite3.connect(f"file:{data / 'ramet.db'}?mode=ro", uri=True) as connection:
        query = "SELECT json_extract(report, '$.recovery.redo_seconds') FROM service WHERE id = ?"
        found = connection.execute(query, (service_id,)).fetchone()
    return float(found[0] or 0) if found else 0.0
