"""No password and no key of a whole run is to be found where it does not belong."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually

pytestmark = [pytest.mark.crash, pytest.mark.slow]
NEW_PASSWORD = "correct-horse-battery-staple-7f3a"


def test_passwords_and_keys_of_a_run_are_nowhere_else(instance: Instance) -> None:
    seen: list[bytes] = []
    secrets = [instance.credentials["secret_key"], NEW_PASSWORD, *_use(instance, seen)]
    needles = [secret.encode() for secret in secrets]
    places = [*_logs(instance), *_store(instance), *_arguments(), *((b"answers", answer) for answer in seen)]
    assert len(places) > 5
    found = [place for place, content in places if any(needle in content for needle in needles)]
    assert found == []
    assert [str(path) for path in world_readable(instance)] == []


def _use(instance: Instance, seen: list[bytes]) -> list[str]:
    """Create, fork, change a password and fail to connect; return the passwords, and note all later answers."""
    parent = instance.call("POST", "/services", {"name": "shop"}).json()
    _await_ready(instance, parent["service_id"])
    path = f"/services/{parent['service_id']}"
    fork = instance.call("POST", f"{path}/forkService", {"fork_strategy": "NOW"}).json()
    _await_ready(instance, fork["service_id"])
    with connect(parent["endpoint"]["port"], parent["initial_password"]) as connection:
        connection.execute("SELECT 1")
    changed = instance.call("POST", f"{path}/updatePassword", {"password": NEW_PASSWORD})
    refused = instance.call("POST", f"{path}/updatePassword", {"password": NEW_PASSWORD, "and": NEW_PASSWORD})
    for answer in (changed, refused, instance.call("GET", "/services"), instance.call("GET", path)):
        seen.append(answer.content)
    with connect(parent["endpoint"]["port"], NEW_PASSWORD) as connection:
        connection.execute("SELECT 1")
    for service in (parent, fork):
        seen.append(instance.call("GET", f"/services/{service['service_id']}/logs").content)
        seen.append(instance.call("GET", f"/services/{service['service_id']}/forkReport").content)
    return [parent["initial_password"], fork["initial_password"]]


def _await_ready(instance: Instance, service_id: str) -> None:
    def is_ready() -> bool:
        return bool(instance.call("GET", f"/services/{service_id}").json()["status"] == "READY")

    eventually(is_ready, "READY")


def _logs(instance: Instance) -> Iterator[tuple[object, bytes]]:
    yield instance.log_file, instance.log_file.read_bytes()
    for directory, _, names in os.walk(instance.backend.instances.layout.services):
        for path in (Path(directory, name) for name in names):
            if path.suffix == ".log" or path.parent.name == "log":
                with suppress(FileNotFoundError):  # a snapshot that is being made, or a log that was rotated
                    yield path, path.read_bytes()


def _store(instance: Instance) -> Iterator[tuple[object, bytes]]:
    yield from instance.store_files().items()


def _arguments() -> Iterator[tuple[object, bytes]]:
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            try:
                yield process, (process / "cmdline").read_bytes()
            except OSError:
                continue


def world_readable(instance: Instance) -> Iterator[Path]:
    """Yield the files that others than their owner could read or write, the way to them included."""
    for directory, names, files in os.walk(instance.data):
        passable = [name for name in names if (Path(directory) / name).lstat().st_mode & stat.S_IXOTH]
        names[:] = passable
        for name in files:
            path = Path(directory) / name
            if path.lstat().st_mode & 0o077 and stat.S_ISREG(path.lstat().st_mode):
                yield path
