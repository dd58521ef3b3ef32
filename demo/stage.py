"""The Ramet that the demo runs on: `ramet up` on a temporary data directory, and its removal."""

import os
import shutil
import tempfile
from pathlib import Path

from harness.instance import Instance
from ramet.backends.local.volumes.disk_usage import free_bytes
from ramet.machine.installation import find_installations

_DELETED_WITHIN_SECONDS = 180.0


class DemoFailed(Exception):
    """Something that the demo needs did not happen; the text says what, and what was seen."""


def make_home() -> Path:
    """Make a directory, where most room is, that the servers' own user can reach too."""
    parents = [Path(os.environ["TMPDIR"])] if "TMPDIR" in os.environ else [Path("/var/tmp"), Path("/tmp")]  # noqa: S108
    parent = max((path for path in parents if os.access(path, os.W_OK)), key=free_bytes)
    home = Path(tempfile.mkdtemp(prefix="ramet-demo-", dir=parent))
    home.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return home


def start(home: Path) -> Instance:
    """Start `ramet up` on a free port. Raises DemoFailed with its log."""
    instance = Instance(home, {"RAMET_LOG_LEVEL": "WARNING"})
    try:
        instance.up()
    except BaseException as error:
        instance.remove()
        if isinstance(error, AssertionError | TimeoutError):
            raise DemoFailed(str(error)) from error
        raise
    return instance


def remove(instance: Instance) -> None:
    """Delete all services, end Ramet, and remove everything. What is broken already is removed all the same."""
    try:
        if instance.process is not None and instance.process.poll() is None:
            _delete_services(instance)
    finally:
        instance.remove()


def _delete_services(instance: Instance) -> None:
    with instance.client() as client:
        doomed = [service.service_id for service in client.list_services()]
        for service_id in doomed:
            client.delete_service(service_id)
        for service_id in doomed:
            client.wait_deleted(service_id, _DELETED_WITHIN_SECONDS)


def program(name: str) -> str:
    """Return the path of one of PostgreSQL's client programs."""
    path = find_installations().default.bin / name
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        raise DemoFailed(f"{name} is not installed beside PostgreSQL in {path.parent} nor on PATH.")
    return found
