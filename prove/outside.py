"""A PostgreSQL server outside of Ramet that a proof follows: killed, restarted, and replaced by a promoted standby."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from harness.ports import free_port
from harness.waiting import eventually
from ramet.machine.installation import Installation

OWNER, ADMIN, REPLICATOR, READER, DATABASE = "postgres", "tsdbadmin", "replicator", "reader", "tsdb"
_END_SECONDS = 120.0


@dataclass
class Outside:
    """The server. It keeps its port; `data` is another directory after a promotion."""

    installation: Installation
    directory: Path
    password: str = field(default_factory=lambda: secrets.token_hex(8), repr=False)
    port: int = field(default_factory=free_port)
    data: str = "data-1"
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """The address for a follower."""
        return f"postgresql://{REPLICATOR}@localhost:{self.port}/{DATABASE}?sslmode=disable"

    @property
    def user(self) -> str | None:
        """The system user of the server: it refuses to run as root."""
        return "nobody" if os.geteuid() == 0 else None

    def connect(self, database: str = DATABASE) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect as the owner of the data, over TCP."""
        return psycopg.connect(
            host="localhost", port=self.port, user=ADMIN, password=self.password, dbname=database, connect_timeout=10,
            autocommit=True,
        )  # fmt: skip

    def create(self) -> None:
        """Make it and start it."""
        (self.directory / "password").write_text(self.password)
        (self.directory / "password").chmod(0o644)
        self._run("initdb", "-D", self._data(self.data), "-U", OWNER, "-A", "scram-sha-256", "--pwfile",
                  str(self.directory / "password"), "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")  # fmt: skip
        with (self.directory / self.data / "pg_hba.conf").open("a") as hba:
            hba.write("host replication all all scram-sha-256\n")
        self.start()
        with self._connect_at(self.port) as connection:
            for role, option in ((ADMIN, ""), (REPLICATOR, "REPLICATION"), (READER, "IN ROLE pg_read_all_data")):
                connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{self.password}' {option}".encode())
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ADMIN}".encode())

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = self._start(self.data, self.port)
        eventually(lambda: self._answers(self.port), "the source")

    def end(self, by: signal.Signals) -> None:
        """End it: SIGINT in order, SIGQUIT as by a fault."""
        if self.process is not None:
            self.process.send_signal(by)
            self.process.wait(_END_SECONDS)
            self.process = None

    def fail_over(self) -> None:
        """Replace it by a standby of itself, which is promoted: the same port leads to another timeline then."""
        successor, port = f"data-{int(self.data.removeprefix('data-')) + 1}", free_port()
        self._run("pg_basebackup", "-D", self._data(successor), "-R", "--no-sync", "--checkpoint=fast", "-X", "stream",
                  "-d", f"host=localhost port={self.port} user={OWNER} password={self.password}")  # fmt: skip
        standby = self._start(successor, port)
        eventually(lambda: self._answers(port), "the standby of the source")
        eventually(self._has_standby, "the standby streams: the source sends it all before it ends")
        self.end(signal.SIGINT)
        with self._connect_at(port) as connection:
            connection.execute("SELECT pg_promote()")
        standby.send_signal(signal.SIGINT)
        standby.wait(_END_SECONDS)
        shutil.rmtree(self.directory / self.data)
        self.data = successor
        self.start()

    def _has_standby(self) -> bool:
        query = "SELECT FROM pg_stat_replication WHERE application_name = 'walreceiver' AND state = 'streaming'"
        with self._connect_at(self.port) as connection:
            return connection.execute(query).fetchone() is not None

    def _start(self, data: str, port: int) -> "subprocess.Popen[bytes]":
        settings = {
            "fsync": "off", "listen_addresses": "127.0.0.1", "port": str(port), "wal_keep_size": "1GB",
            "unix_socket_directories": str(self.directory), "logging_collector": "off", "track_commit_timestamp": "on",
            "max_connections": "50", "autovacuum_naptime": "5s",
        }  # fmt: skip
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return subprocess.Popen(
            [self.installation.program("postgres"), "-D", self._data(data), *options],
            user=self.user, cwd=self.directory, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _data(self, name: str) -> str:
        return str(self.directory / name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self.installation.program(program), *arguments]
        done = subprocess.run(command, user=self.user, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{program} failed: {done.stderr[-1000:]}")

    def _connect_at(self, port: int) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host="localhost", port=port, user=OWNER, password=self.password, dbname="postgres", connect_timeout=10,
            autocommit=True,
        )  # fmt: skip

    def _answers(self, port: int) -> bool:
        try:
            self._connect_at(port).close()
        except psycopg.OperationalError:
            return False
        return True


@contextlib.contextmanager
def open_outside(installation: Installation) -> Iterator[Outside]:
    """Run a server; at the end nothing is left of it."""
    directory = Path(tempfile.mkdtemp(prefix="ramet-outside-"))
    outside = Outside(installation, directory)
    if outside.user is not None:
        shutil.chown(directory, outside.user)
    try:
        outside.create()
        yield outside
    finally:
        outside.end(signal.SIGQUIT)
        shutil.rmtree(directory)
