"""The base copy of a source: pg_basebackup into the service's volume.

It runs in a thread, and begins again after a crash; what it says goes through a file, because the thread may be another
process's.
"""

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.standby import connection_of, source_directory
from ramet.backends.local.sources.tools import Workplace, check
from ramet.backends.local.sql import foreign
from ramet.backends.local.sql.foreign import Foreign
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.backends.local.wal.control_file import ControlData, read_control_data
from ramet.errors import Failed
from ramet.model.upstream import Upstream

_SIGNAL, _OWN_SETTINGS, _PROGRESS, _FACTS = "standby.signal", "postgresql.auto.conf", "progress", "facts.json"
_KB = re.compile(r"(\d{1,15})/(\d{1,15}) kB")  # bounded: a source may send any digits
_REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class BaseCopy:
    """One base copy on this host."""

    instances: Instances
    driver: Driver
    server: Server
    upstream: Upstream
    free_bytes: Callable[[], int]

    @property
    def paths(self) -> ServicePaths:
        """The paths of the service."""
        return self.instances.paths(self.server.service_id)

    @property
    def directory(self) -> Path:
        """Where the password and the progress are."""
        return source_directory(self.paths)

    def progress(self) -> str:
        """Return how far it is, as the thread that does it has written it."""
        return files.read(self.directory / _PROGRESS)

    def fetch(self) -> dict[str, Any]:
        """Copy the source; return the facts for the report. Raises Failed.

        The data gets its name as the last step: when it has that, the copy of an earlier call is complete.
        """
        if not self.paths.data.exists():
            facts = self._copy(self.upstream.slot_of(self.server.service_id))
            foreign.write(self.paths, Foreign(self.upstream.bootstrap_role, self.upstream.database))
            known = {name: facts[name] for name in ("received_bytes", "seconds")}
            files.write(self.directory / _FACTS, json.dumps(known), durable=True)
            self.paths.unfinished.rename(self.paths.data)
        sync_tree(self.paths.root)
        found: dict[str, Any] = json.loads(files.read(self.directory / _FACTS) or "{}")
        return found

    def fetch_again(self) -> dict[str, Any]:
        """Copy the source beside the data of its standby, which may use the slot; return where the copy begins."""
        return self._copy(slot=None)

    def _copy(self, slot: str | None) -> dict[str, Any]:
        begun, workplace = time.monotonic(), Workplace(self.directory, self.instances.account)
        workplace.end_programs()
        data = self.paths.unfinished
        self.driver.remove_tree(data)
        self.driver.create_tree(data)
        self.instances.account.own(data)
        data.chmod(0o700)
        heard = _Heard(self.directory / _PROGRESS, self.free_bytes)
        ended = workplace.run(self._command(data, slot), {"LC_ALL": "C"}, heard.hear)
        check(ended, "COPY_FAILED", f"pg_basebackup could not copy {self.upstream}")
        control = self._checked(data)
        for name in (_SIGNAL, _OWN_SETTINGS):
            files.write(data / name)
        sync_tree(self.paths.root)
        return {
            "received_bytes": heard.done_bytes,
            "seconds": round(time.monotonic() - begun, 1),
            "timeline": control.timeline,
            "redo_lsn": control.redo_lsn,
        }

    def _command(self, data: Path, name: str | None) -> list[str]:
        program = self.instances.installation_of(self.server).program("pg_basebackup")
        slot = ["--no-slot"] if name is None else ["--slot", name]
        return [
            program, "--pgdata", str(data), "--wal-method=stream",
            "--dbname", connection_of(self.upstream, self.directory, self.server.service_id),
            "--checkpoint=fast", "--no-password", "--no-sync", "--no-manifest", "--progress", "--verbose",
            "--label", "ramet follow", *slot,
        ]  # fmt: skip

    def _checked(self, data: Path) -> ControlData:
        if list((data / "pg_tblspc").iterdir()):
            raise Failed("TABLESPACE", f"The source {self.upstream} has tablespaces", "Drop them there.")
        control = read_control_data(self.instances.installation_of(self.server), data)
        if str(control.system_identifier) != self.upstream.system_identifier:
            raise Failed(
                "OTHER_SOURCE",
                f"The source {self.upstream} was another cluster when it was examined",
                f"It is {control.system_identifier} now, and was {self.upstream.system_identifier}.",
            )
        return control


class _Heard:
    """What pg_basebackup says of its progress, written where others read it."""

    def __init__(self, file: Path, free_bytes: Callable[[], int]) -> None:
        self._file, self._free_bytes, self._due_at, self.done_bytes = file, free_bytes, 0.0, 0

    def hear(self, line: str) -> None:
        """Take a line."""
        found = _KB.search(line)
        if found is None:
            return
        self.done_bytes, total = int(found[1]) * 1024, int(found[2]) * 1024
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + _REPORT_SECONDS
            with contextlib.suppress(OSError):  # the copy was discarded
                text = f"{self.done_bytes >> 20} of {total >> 20} MiB received ({self.done_bytes} bytes)"
                free, left = self._free_bytes(), total - self.done_bytes
                if free < left:
                    text += f". The storage has {free >> 20} MiB left, and {left >> 20} MiB are missing: enlarge it."
                files.write(self._file, text)


def remove(directory: Path) -> None:
    """Remove the password and the progress."""
    shutil.rmtree(directory, ignore_errors=not directory.exists())
