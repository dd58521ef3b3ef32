"""pg_upgrade on the data directory of a stopped server.

The old cluster is moved aside, the new one is made beside it, and takes its name as the last act. pg_upgrade copies
files by reflink where the volume shares blocks, so the old cluster stays whole, and an attempt that was killed begins
again with it.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.children import ENVIRONMENT
from ramet.backends.local.host.own_faults import looking_at
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process.signals import end_all_in
from ramet.backends.local.restore.single_user import SingleUser
from ramet.backends.local.server.configuration import for_origins
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sources.tools import job_count
from ramet.backends.local.sql.connections import PLATFORM_ROLE
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.backends.local.wal.control_file import read_fixed_properties
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation
from ramet.machine.programs import complete

_OLD, _NEW = "data.before", "data.after"
_STATISTICS_SINCE = 18
_INIT_SECONDS, _RECOVERY_SECONDS = 300.0, 600.0
_SHOWN_LINES, _SHOWN_CHARACTERS = 30, 1800
# pg_dump locks all tables of a database at once.
_SETTINGS = {
    "archive_mode": "off",
    "listen_addresses": "",
    "logging_collector": "off",
    "max_connections": "50",
    "max_locks_per_transaction": "2048",
    "max_prepared_transactions": "0",
    "ssl": "off",
}


@dataclass(frozen=True)
class Cluster:
    """The upgrade of one server's data, from the installation `old` to the installation `new`."""

    instances: Instances
    driver: Driver
    server: Server
    old: Installation
    new: Installation

    @property
    def paths(self) -> ServicePaths:
        """The paths of the service."""
        return self.instances.paths(self.server.service_id)

    @cached_property
    def directory(self) -> Path:
        """What belongs to the upgrade alone: configuration and logs."""
        return directory_of(self.paths)

    def progress(self) -> str:
        """Return what pg_upgrade does, in its words."""
        lines = [line.strip() for line in files.read(self._log, errors="replace").splitlines() if line.strip()]
        return f"{len(lines)} {lines[-1]}" if lines else ""

    def upgrade(self) -> dict[str, Any]:
        """Upgrade the data; return the facts for the report. Raises Failed with what pg_upgrade said."""
        end_programs(self.paths)
        self._make_directory()
        old, new = self.paths.root / _OLD, self.paths.root / _NEW
        if not self._is_upgraded():
            if self.paths.data.exists():
                self.paths.data.rename(old)
            self._settle(old)
            self._initialize(old, new)
            self._run(old, new)
            sync_tree(self.paths.root)
            new.rename(self.paths.data)
        self.driver.remove_tree(old)
        sync_tree(self.paths.root)
        return {
            "method": "clone" if self.driver.shares_blocks else "copy",
            "keeps_statistics": self.new.major >= _STATISTICS_SINCE,
        }

    @property
    def _log(self) -> Path:
        return self.directory / "pg_upgrade.log"

    def _is_upgraded(self) -> bool:
        return files.read(self.paths.data / "PG_VERSION").strip() == str(self.new.major)

    def _make_directory(self) -> None:
        account = self.instances.account
        account.make_directory(self.directory)
        self.instances.config.make_sockets(self.paths)
        files.make_directory(self.paths.sockets, "upgrade")
        files.write(self.directory / "pg_hba.conf", f"local all {PLATFORM_ROLE} peer map=upgrade\n")
        files.write(self.directory / "pg_ident.conf", f'upgrade "{account.name}" {PLATFORM_ROLE}\n')
        for name, installation in (("old.conf", self.old), ("new.conf", self.new)):
            files.write(self.directory / name, self._configuration(installation))

    def _configuration(self, installation: Installation) -> str:
        preload = self.instances.config.preload_of(self.server.service_type, installation)
        settings = {
            **_SETTINGS,
            **for_origins(installation.major),
            "unix_socket_directories": str(self.paths.sockets / "upgrade"),
            "hba_file": str(self.directory / "pg_hba.conf"),
            "ident_file": str(self.directory / "pg_ident.conf"),
            "shared_preload_libraries": ",".join(preload),
        }
        return "".join(f"{name} = '{value}'\n" for name, value in settings.items())

    def _settle(self, old: Path) -> None:
        """Shut the old cluster down cleanly, if an attempt that was killed has left it running."""
        (old / "postmaster.pid").unlink(missing_ok=True)
        log = self.directory / "recovery.log"
        place = SingleUser(self.paths.root, old, self.directory / "old.conf", log, self.old, self.instances.account)
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while isinstance(found := place.recover({}, "SELECT 1;", 1.0), str):
            if time.monotonic() > deadline:
                raise Unavailable("RECOVERY_LATE", f"The recovery of {old} takes longer than usual", found)

    def _initialize(self, old: Path, new: Path) -> None:
        """Make an empty cluster that has the properties of the old one that cannot be changed later."""
        self.driver.remove_tree(new)
        self.driver.create_tree(new)
        self.instances.account.own(new)
        self.instances.account.check_reach(self.new.bin)
        command = [
            self.new.program("initdb"), "-D", str(new), "--username", PLATFORM_ROLE, "--encoding=UTF8",
            "--locale=C.UTF-8", *self._fixed(old), "--auth-local=peer", "--auth-host=reject", "--no-sync",
            "--no-instructions",
        ]  # fmt: skip
        done = complete(
            command,
            timeout_seconds=_INIT_SECONDS,
            env=ENVIRONMENT,
            cwd=self.paths.root,
            **self.instances.account.identity(),
        )
        _check_not_killed("initdb", done.returncode)
        if done.returncode != 0:
            raise Failed("UPGRADE_FAILED", f"initdb of PostgreSQL {self.new.version} failed", done.stderr[-2000:])

    def _fixed(self, old: Path) -> Iterator[str]:
        """Yield the options of initdb for what pg_upgrade demands to be the same; it takes over the locales itself."""
        has_checksums, segment_bytes = read_fixed_properties(self.old, old)
        if has_checksums:
            yield "--data-checksums"
        elif self.new.major >= 18:
            yield "--no-data-checksums"
        yield f"--wal-segsize={segment_bytes // 1024**2}"

    def _run(self, old: Path, new: Path) -> None:
        command = [
            self.new.program("pg_upgrade"), "--old-bindir", str(self.old.bin), "--new-bindir", str(self.new.bin),
            "--old-datadir", str(old), "--new-datadir", str(new), "--username", PLATFORM_ROLE,
            "--clone" if self.driver.shares_blocks else "--copy", "--jobs", str(job_count()),
            "--socketdir", str(self.paths.sockets / "upgrade"),
            "--old-options", f"-c config_file={self.directory}/old.conf",
            "--new-options", f"-c config_file={self.directory}/new.conf",
            "--no-sync",
        ]  # fmt: skip
        lent, identity = self.instances.account.lend(command)
        with files.output(self.paths.root, self._log) as log:
            done = subprocess.run(
                lent, env=ENVIRONMENT, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, umask=0o077, check=False, **identity,
            )  # fmt: skip
        _check_not_killed("pg_upgrade", done.returncode)
        if done.returncode != 0:
            raise Failed(
                "UPGRADE_FAILED",
                f"pg_upgrade from {self.old.version} to {self.new.version} failed",
                self._explanation(new),
            )
        shutil.rmtree(new / "pg_upgrade_output.d", ignore_errors=True)

    def _explanation(self, new: Path) -> str:
        """Return the end of pg_upgrade's log, and the reports and errors that it refers to."""
        log = files.read(self._log, errors="replace")
        said = [line for line in log.splitlines() if line.strip()][-_SHOWN_LINES:]
        # The servers' user owns what is there: no link in place of a directory or a file is followed.
        with suppress(FileNotFoundError):  # pg_upgrade may end before it makes the directory
            for _, _, names, directory in os.fwalk(new / "pg_upgrade_output.d"):
                for name in sorted(names):
                    said += _shown(name, directory)
        shown = [line for line in said if " ok" not in line[-4:]]
        return "\n".join(shown)[-_SHOWN_CHARACTERS:]


def _check_not_killed(program: str, status: int) -> None:
    if status < 0:
        raise Unavailable("UPGRADE_KILLED", f"{program} was killed by signal {-status}")


def _shown(name: str, directory: int) -> Iterator[str]:
    """Yield what an error shows of a file of pg_upgrade: the beginning of a report, the errors of a log."""
    if name.endswith(".txt"):
        yield f"{name}:"
        yield from files.read(Path(name), errors="replace", parent=directory).splitlines()[:_SHOWN_LINES]
    elif name.endswith(".log"):
        lines = files.read(Path(name), errors="replace", parent=directory).splitlines()
        yield from (line for line in lines if "error: " in line or "ERROR: " in line or "FATAL: " in line)


def directory_of(paths: ServicePaths) -> Path:
    """Return where the files of an upgrade of a service are."""
    return paths.root / "upgrade"


def end_programs(paths: ServicePaths) -> None:
    """Kill pg_upgrade and the servers of an attempt whose caller was killed.

    Raises Unavailable while they end, or when that cannot be determined.
    """
    places = (directory_of(paths), paths.root / _OLD, paths.root / _NEW)
    with looking_at(f"an earlier pg_upgrade of service {paths.service_id}"):
        have_ended = not any(place.exists() for place in places) or end_all_in(*places)
    if not have_ended:
        raise Unavailable("UPGRADE_ENDING", f"An earlier pg_upgrade of service {paths.service_id} is still ending")


def remove(driver: Driver, paths: ServicePaths) -> None:
    """Remove the clusters and files of an upgrade, complete or not. May run twice."""
    end_programs(paths)
    for name in (_OLD, _NEW):
        driver.remove_tree(paths.root / name)
    shutil.rmtree(directory_of(paths), ignore_errors=True)
