"""No password and no key of a whole run is to be found where it does not belong."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from prove.site import Site, connect, eventually

pytestmark = [pytest.mark.crash, pytest.mark.slow]
PATIENCE_SECONDS = 90.0
NEW_PASSWORD = "correct-horse-battery-staple-7f3a"


def test_passwords_and_keys_of_a_run_are_nowhere_else(site: Site) -> None:
    seen: list[bytes] = []
    secrets = [site.key()["secret_key"], NEW_PASSWORD, *_use(site, seen)]
    needles = [secret.encode() for secret in secrets]
    places = [*_logs(site), *_store(site), *_arguments(), *((b"answers", answer) for answer in seen)]
    assert len(places) > 5
    found = [place for place, content in places if any(needle in content for needle in needles)]
    assert found == []
    assert [str(path) for path in _world_readable(site)] == []


def _use(site: Site, seen: list[bytes]) -> list[str]:
    """Create, fork, change a password and fail to connect; return the passwords, and note all later answers."""
    parent = site.call("POST", "/services", {"name": "shop"}).json()
    _await_ready(site, parent["service_id"])
    path = f"/services/{parent['service_id']}"
    fork = site.call("POST", f"{path}/forkService", {"fork_strategy": "NOW"}).json()
    _await_ready(site, fork["service_id"])
    with connect(parent["endpoint"]["port"], parent["initial_password"]) as connection:
        connection.execute("SELECT 1")
    changed = site.call("POST", f"{path}/updatePassword", {"password": NEW_PASSWORD})
    refused = site.call("POST", f"{path}/updatePassword", {"password": NEW_PASSWORD, "and": NEW_PASSWORD})
    for answer in (changed, refused, site.call("GET", "/services"), site.call("GET", path)):
        seen.append(answer.content)
    with connect(parent["endpoint"]["port"], NEW_PASSWORD) as connection:
        connection.execute("SELECT 1")
    for service in (parent, fork):
        seen.append(site.call("GET", f"/services/{service['service_id']}/logs").content)
        seen.append(site.call("GET", f"/services/{service['service_id']}/forkReport").content)
    return [parent["initial_password"], fork["initial_password"]]


def _await_ready(site: Site, service_id: str) -> None:
    def is_ready() -> bool:
        return bool(site.call("GET", f"/services/{service_id}").json()["status"] == "READY")

    eventually(is_ready, PATIENCE_SECONDS, "READY")


def _logs(site: Site) -> Iterator[tuple[object, bytes]]:
    yield site.log, site.log.read_bytes()
    for path in site.backend.servers.layout.services.glob("*/**/*.log"):
        yield path, path.read_bytes()
    for path in site.backend.servers.layout.services.glob("*/log/*"):
        yield path, path.read_bytes()


def _store(site: Site) -> Iterator[tuple[object, bytes]]:
    for path in site.data.glob("ramet.db*"):
        yield path, path.read_bytes()


def _arguments() -> Iterator[tuple[object, bytes]]:
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            try:
                yield process, (process / "cmdline").read_bytes()
            except OSError:
                continue


def _world_readable(site: Site) -> Iterator[Path]:
    """Yield the files that others than their owner could read or write, the way to them included."""
    for directory, names, files in os.walk(site.data):
        passable = [name for name in names if (Path(directory) / name).lstat().st_mode & stat.S_IXOTH]
        names[:] = passable
        for name in files:
            path = Path(directory) / name
            if path.lstat().st_mode & 0o077 and stat.S_ISREG(path.lstat().st_mode):
                yield path
