"""A service restored by Barman's own programs from an object store, without any code of Ramet, for tests and proofs."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host.system_user import Account
from ramet.machine.installation import Installation

_PROGRAMS = Path(sys.executable).parent
_START_SECONDS = 300


@dataclass(frozen=True)
class Barman:
    """The archive of one service: its URL, the service ID, and the variables that lead to the store."""

    url: str
    server: str
    environment: Mapping[str, str]

    def run(self, program: str, *words: str) -> None:
        """Run one of Barman's programs on this archive. Raises AssertionError with what it wrote."""
        command = [str(_PROGRAMS / program), "--endpoint-url", self.environment["AWS_ENDPOINT_URL"], self.url]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            [*command, self.server, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{program} {' '.join(words)} ended with {done.returncode}: {done.stderr[-1000:]}")


@contextlib.contextmanager
def restored(
    barman: Barman,
    root: Path,
    wal_names: Sequence[str],
    installation: Installation,
    account: Account,
    backup_id: str = "latest",
    **settings: str,
) -> Iterator[Path]:
    """Restore a service below a new directory and recover it from the WAL that is named; yield its socket directory.

    The server is started: with `hot_standby=off` it accepts connections when recovery is over.
    """
    account.make_directory(root)
    data = root / "data"
    try:
        barman.run("barman-cloud-restore", backup_id, str(data))
        # The servers' user cannot run Barman: its WAL is fetched beforehand.
        account.make_directory(root / "wal")
        for name in wal_names:
            barman.run("barman-cloud-wal-restore", name, str(root / "wal" / name))
        _configure(root, data, settings)
        for path in root.rglob("*"):
            account.own(path)
        with _started(root, data, installation, account):
            yield root
    finally:
        shutil.rmtree(root)


def _configure(root: Path, data: Path, settings: Mapping[str, str]) -> None:
    wanted = {
        "restore_command": f"cp {root}/wal/%f %p",
        "recovery_target_action": "promote",
        "hot_standby": "off",
        "archive_mode": "off",
        "shared_preload_libraries": "",
        "listen_addresses": "",
        "unix_socket_directories": str(root),
    }
    with (data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in {**wanted, **settings}.items())
    (data / "recovery.signal").touch()


@contextlib.contextmanager
def _started(root: Path, data: Path, installation: Installation, account: Account) -> Iterator[None]:
    program, log = installation.program("pg_ctl"), root / "log"

    def pg_ctl(*words: str) -> bool:
        command, quiet = [program, "-D", str(data), *words], subprocess.DEVNULL
        done = subprocess.run(
            command,
            stdout=quiet,
            stderr=quiet,
            cwd="/",
            timeout=_START_SECONDS + 30,
            check=False,
            **account.identity(),
        )
        return done.returncode == 0

    try:
        if not pg_ctl("-l", str(log), "-w", "-t", str(_START_SECONDS), "start"):
            raise AssertionError(f"{data} does not start: {log.read_text()[-2000:] if log.exists() else 'no log'}")
        yield
    finally:
        pg_ctl("-m", "immediate", "stop")
