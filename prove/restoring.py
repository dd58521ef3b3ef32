"""Ways to bring services back from the object store: on the next machine by `ramet recover`, or by Barman."""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from harness.barman import Barman, restored
from harness.instance import connect
from harness.object_stores import ObjectStore
from harness.ports import free_port
from harness.waiting import eventually
from prove.machine import Busy, Machine
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.local.host.system_user import server_account
from ramet.machine.installation import find_installations

_HBA = "host all all 127.0.0.1/32 scram-sha-256\nhost all all ::1/128 scram-sha-256\n"


@dataclass(frozen=True)
class Server:
    """A restored server, asked with the password that the service had."""

    port: int
    password: str

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """Connect as the admin."""
        return connect(self.port, self.password)


def recover(lost: Machine, target: datetime | None = None, kill_after_seconds: float | None = None) -> Machine:
    """Recover all services of a lost machine on the next one, start Ramet there, and return it.

    With `kill_after_seconds` the recovery is killed after that time, and begun again.
    """
    machine = Machine(lost.root, lost.variables, lost.instance.services)
    words = ["recover", "--from", lost.variables["RAMET_ARCHIVE_URL"], "--all", "--take-over"]
    words += [
        "--archive-key-file",
        str(lost.key_file),
        "--data",
        str(machine.instance.data),
        "--port-range",
        lost.ports,
    ]
    words += ["--to", target.isoformat()] if target is not None else []
    try:
        if kill_after_seconds is not None:
            machine.was_interrupted = machine.instance.run_until(kill_after_seconds, *words)
        done = machine.instance.run(*words)
        if done.returncode != 0:
            raise AssertionError(f"ramet recover ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        machine.instance.port = free_port()  # the one from before the recovery may be taken by now
        machine.instance.up()
        machine.adopt(lost)
    except BaseException:
        machine.lose()
        raise
    return machine


@contextlib.contextmanager
def restored_by_barman(store: ObjectStore, prefix: str, busy: Busy, root: Path) -> Iterator[Server]:
    """Restore the newest state of a service by Barman's programs alone, on a server without Ramet."""
    hba_file = root / f"pg_hba-{secrets.token_hex(4)}.conf"
    hba_file.write_text(_HBA)
    server = Server(free_port(), busy.password)
    url = f"{store.url}/{prefix}"
    names = _wal_names(Bucket(url, store.client(prefix)), busy.service_id)
    settings = {"listen_addresses": "localhost", "port": str(server.port), "hba_file": str(hba_file), "ssl": "off"}
    place, barman = root / f"barman-{busy.service_id}", Barman(url, busy.service_id, store.environment())
    with restored(barman, place, names, find_installations().default, server_account(), **settings):
        eventually(lambda: _answers(server), f"the server of {busy.service_id} restored by Barman", 0.1)
        yield server


def _wal_names(bucket: Bucket, server: str) -> list[str]:
    """Return the WAL that the newest base backup needs: later segments of its timeline, and histories."""
    first = BaseBackups(bucket, server).complete()[-1].begin_segment
    names = WalArchive(bucket, server).names()
    return sorted(name for name in names if name >= first or name.endswith(".history"))


def _answers(server: Server) -> bool:
    with contextlib.suppress(psycopg.OperationalError), server.connect() as connection:
        return not connection.execute("SELECT pg_is_in_recovery()").fetchall()[0][0]
    return False
