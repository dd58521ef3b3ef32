"""Real servers whose WAL and base backups go to an S3 server, and are restored from there by Barman's own programs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.sql import connections
from tests.backends.local.forks import append, paths_of, rows_of, snapshot


@pytest.fixture
def archive(backend: LocalBackend, bucket: Bucket) -> LocalArchive:
    return LocalArchive(backend.instances, backend.pool.driver, bucket, "this-installation")


def switch(backend: LocalBackend, server: Server) -> None:
    """Close the current segment, and wait until it is in the local archive."""
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("SELECT pg_switch_wal()")
        query = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
        eventually(lambda: connection.execute(query).fetchone() == (0,))


def maintain(archive: LocalArchive, server: Server, *, paused: bool = False) -> ArchiveState:
    state = archive.maintain(server, paused=paused, timeout_seconds=60)
    assert state.problem is None
    return state


def archived(archive: LocalArchive, server: Server) -> ArchiveState:
    """Maintain the archive until it has a base backup and all that is committed."""
    reached = list[ArchiveState]()

    def is_archived() -> bool:
        reached.append(maintain(archive, server))
        return reached[-1].archived_until is not None

    eventually(is_archived)
    return reached[-1]


@contextmanager
def restored_by_barman(
    backend: LocalBackend, server: Server, bucket: Bucket, backup_id: str = "latest", **settings: str
) -> Iterator[Callable[[], list[int]]]:
    """Restore a service with Barman's programs alone, and recover it from the WAL in the bucket."""
    account, installation = backend.instances.account, backend.instances.installations.of(server.pg_major)
    root = backend.pool.root / f"barman-{server.service_id}"
    account.make_directory(root)
    programs, environment = Path(sys.executable).parent, dict(os.environ)
    common = ["--endpoint-url", environment["AWS_ENDPOINT_URL"], bucket.url, server.service_id]
    data = root / "data"
    subprocess.run([programs / "barman-cloud-restore", *common, backup_id, data], check=True, timeout=300)
    # The servers' user cannot run Barman: its WAL is fetched beforehand.
    account.make_directory(root / "wal")
    for name in WalArchive(bucket, server.service_id).names():
        subprocess.run(
            [programs / "barman-cloud-wal-restore", *common, name, root / "wal" / name], check=True, timeout=60
        )
    with (data / "postgresql.auto.conf").open("a") as file:
        for name, value in {
            "restore_command": f"cp {root}/wal/%f %p", "recovery_target_action": "promote", "hot_standby": "off", "archive_mode": "off",
            "shared_preload_libraries": "", "listen_addresses": "", "unix_socket_directories": str(root), **settings,
        }.items():  # fmt: skip
            file.write(f"{name} = '{value}'\n")
    (data / "recovery.signal").touch()
    for path in root.rglob("*"):
        account.own(path)
    program = installation.program("pg_ctl")
    identity = {"env": environment, **account.identity()}
    log = root / "log"
    start = [program, "-D", data, "-l", log, "-w", "-t", "120", "start"]
    try:
        subprocess.run(start, check=True, timeout=150, cwd="/", **identity)  # type: ignore[call-overload]

        def rows() -> list[int]:
            # Empty until the recovery is over.
            psql = [installation.program("psql"), "-h", root, "-U", "ramet", "-d", "postgres", "-Atc"]
            query = [*psql, "SELECT n FROM public.ledger ORDER BY n"]
            done = subprocess.run(query, check=False, timeout=60, capture_output=True, text=True, cwd="/", **identity)  # type: ignore[call-overload]
            return [int(line) for line in done.stdout.split()]

        yield rows
    finally:
        stop = [program, "-D", data, "-m", "immediate", "stop"]
        subprocess.run(stop, check=False, timeout=60, cwd="/", **identity)  # type: ignore[call-overload]
        print(log.read_text() if log.exists() else "no log")
        shutil.rmtree(root)


def test_barman_restores_every_row_that_was_archived(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    append(backend, parent, 1, 2)
    snapshot(backend, parent)
    append(backend, parent, 3)
    switch(backend, parent)
    until = archived(archive, parent).archived_until
    append(backend, parent, 4)
    before = append(backend, parent, 5)[0]
    maintain(archive, parent)
    switch(backend, parent)
    eventually(lambda: (maintain(archive, parent).archived_until or before) > before)
    assert until is not None
    with restored_by_barman(backend, parent, bucket) as rows:
        eventually(lambda: rows() == rows_of(backend, parent) == [1, 2, 3, 4, 5])
