"""What one would do without Ramet, on the same data: each function takes a copy of the parent and starts it.

All of them read the parent over its private socket as the superuser; each returns milliseconds from the first command
to the first answer of the copy.
"""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.bare import Bare
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.wal.segment import segment_at, segment_before, segments_between

_REPLICATION = "local replication ramet peer map=platform\n"
# What the copies share with the parent, so that what it wrote can be replayed.
_AS_PARENT = (
    "recovery_init_sync_method=syncfs",
    "max_prepared_transactions=100",
    "max_locks_per_transaction=128",
    "max_worker_processes=20",
)


@dataclass(frozen=True)
class Peers:
    """The peers of one parent; copies are made in `room`, on the parent's file system."""

    bare: Bare
    parent: ServicePaths
    room: Path
    repository: Path

    def all(self) -> dict[str, Callable[[], float]]:
        """Return every peer that this machine has, by name."""
        found: dict[str, Callable[[], float]] = {
            "bare_clone": lambda: self.copied("always"),
            "pg_basebackup": self.pg_basebackup,
            "cp": lambda: self.copied("never"),
        }
        if shutil.which("pgbackrest") is not None:
            found["pgbackrest"] = self.pgbackrest
        return found

    def connect(self) -> psycopg.Connection[Any]:
        """Connect to the parent as its superuser."""
        sockets = str(self.parent.sockets)
        return psycopg.connect(host=sockets, port=self._port(), user="ramet", dbname="postgres", autocommit=True)

    def copied(self, reflink: str) -> float:
        """Copy the files in backup mode with cp, sharing blocks (`always`) or not (`never`), and start the copy."""
        with self._target() as target:
            begun = time.perf_counter()
            with self.connect() as connection:
                connection.execute("SELECT pg_backup_start('bench', true)")
                names = [path for path in self.parent.data.iterdir() if path.name not in ("pg_wal", "postmaster.pid")]
                target.mkdir(mode=0o700)
                command = ["cp", "-a", f"--reflink={reflink}", *map(str, names), str(target)]
                subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
                rows = connection.execute("SELECT lsn::text, labelfile FROM pg_backup_stop(false)").fetchall()
            end_lsn, label = rows[0]
            (target / "backup_label").write_text(label)
            self._add_wal(target, label, end_lsn)
            return self._started(target, begun)

    def pg_basebackup(self) -> float:
        """Copy with pg_basebackup, and start the copy."""
        with self._target() as target:
            begun = time.perf_counter()
            command = [self.bare.program("pg_basebackup"), "-D", str(target), "-h", str(self.parent.sockets), "-p"]
            command += [str(self._port()), "-U", "ramet", "-c", "fast", "-X", "stream"]
            subprocess.run(command, check=True, capture_output=True)
            return self._started(target, begun)

    def pgbackrest(self) -> float:
        """Restore the backup that `back_up` made, and start what was restored."""
        with self._target() as target:
            target.mkdir(mode=0o700)
            begun = time.perf_counter()
            self._pgbackrest(f"--pg1-path={target}", "--type=none", "restore")
            label = (target / "backup_label").read_text()
            self._add_wal(target, label, (self.repository / "end_lsn").read_text())
            return self._started(target, begun)

    def back_up(self) -> None:
        """Make the backup that pgbackrest restores."""
        shutil.rmtree(self.repository, ignore_errors=True)
        self.repository.mkdir(parents=True)
        self._pgbackrest(*self._pg1(), "--no-online", "stanza-create")
        self._pgbackrest(
            *self._pg1(), "--no-archive-check", "--compress-type=none", "--start-fast", "--type=full", "backup"
        )
        with self.connect() as connection:
            rows = connection.execute("SELECT pg_switch_wal()::text").fetchall()
        (self.repository / "end_lsn").write_text(rows[0][0])

    @contextlib.contextmanager
    def replication_allowed(self) -> Iterator[None]:
        """Let the superuser take base backups: Ramet's own configuration allows it to no role."""
        rules = self.parent.hba_file
        before = rules.read_text()
        rules.write_text(_REPLICATION + before)
        with self.connect() as connection:
            connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            rules.write_text(before)
            with self.connect() as connection:
                connection.execute("SELECT pg_reload_conf()")

    @contextlib.contextmanager
    def _target(self) -> Iterator[Path]:
        target = self.room / "copy"
        shutil.rmtree(target, ignore_errors=True)
        try:
            yield target
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _started(self, target: Path, begun: float) -> float:
        for name in ("postmaster.opts", "postgresql.auto.conf", "current_logfiles", "recovery.signal"):
            (target / name).unlink(missing_ok=True)
        (target / "postgresql.conf").write_text("")
        (target / "pg_hba.conf").write_text("local all all trust\n")
        self.bare.own(target)
        self.bare.started(target, _AS_PARENT)
        return 1000 * (time.perf_counter() - begun)

    def _add_wal(self, target: Path, label: str, end_lsn: str) -> None:
        wal = target / "pg_wal"
        wal.mkdir(mode=0o700, exist_ok=True)
        start_lsn = label.split("START WAL LOCATION: ")[1].split(" ")[0]
        for segment in segments_between(segment_at(1, start_lsn), segment_before(1, end_lsn)):
            places = (self.parent.archive / segment.name, self.parent.data / "pg_wal" / segment.name)
            source = next(path for path in places if path.exists())
            subprocess.run(["cp", "--reflink=auto", str(source), str(wal / segment.name)], check=True)

    def _pg1(self) -> list[str]:
        where = [f"--pg1-path={self.parent.data}", f"--pg1-socket-path={self.parent.sockets}"]
        return [*where, f"--pg1-port={self._port()}", "--pg1-user=ramet", "--pg1-database=postgres"]

    def _pgbackrest(self, *arguments: str) -> None:
        command = ["pgbackrest", "--stanza=bench", f"--repo1-path={self.repository}"]
        command += ["--log-level-file=off", f"--lock-path={self.repository / 'lock'}"]
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"pgbackrest {arguments[-1]}: {done.stdout[-1500:]}{done.stderr[-500:]}")

    def _port(self) -> int:
        return int(self.parent.pid_file.read_text().splitlines()[3])
