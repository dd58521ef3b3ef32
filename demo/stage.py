"""A Ramet of the demo's own: `ramet up` on a data directory that nobody else uses, and its end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.doctor import has_storage
from ramet.backends.local.host.paths import layout_of
from ramet.backends.local.volumes.disk_usage import free_bytes
from ramet.client import Client
from ramet.machine.installation import find_installations

_UP_WITHIN_SECONDS = 60.0
_END_WITHIN_SECONDS = 60.0
_RAMET = (sys.executable, "-m", "ramet")


class DemoFailed(Exception):
    """Something did not come to pass; the text says what, and what was seen."""


@dataclass(frozen=True)
class Stage:
    """A running Ramet. `home` holds all that the demo leaves on the disk."""

    home: Path
    process: subprocess.Popen[bytes]
    base_url: str
    project_id: str
    public_key: str
    secret_key: str

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """What `ramet up` said."""
        return self.home / "ramet.log"

    @property
    def credentials_file(self) -> Path:
        """Where the key is."""
        return self.home / "credentials.json"

    def client(self) -> Client:
        """Return a client of the only project."""
        return Client(self.base_url, self.project_id, self.public_key, self.secret_key)

    def strike(self) -> None:
        """Delete all services, end Ramet, and remove everything. What is broken already is removed all the same."""
        try:
            self._delete_services()
        finally:
            _remove(self.home, self.process)

    def _delete_services(self) -> None:
        if self.process.poll() is not None:
            return
        with self.client() as client:
            doomed = [service.service_id for service in client.list_services()]
            for service_id in doomed:
                client.delete_service(service_id)
            for service_id in doomed:
                client.wait_deleted(service_id, _END_WITHIN_SECONDS)


def make_home() -> Path:
    """Make a directory, where most room is, that the servers' own user can reach too."""
    parents = [Path(os.environ["TMPDIR"])] if "TMPDIR" in os.environ else [Path("/var/tmp"), Path("/tmp")]  # noqa: S108
    parent = max((path for path in parents if os.access(path, os.W_OK)), key=free_bytes)
    home = Path(tempfile.mkdtemp(prefix="ramet-demo-", dir=parent))
    home.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return home


def start(home: Path) -> Stage:
    """Start `ramet up` on a free port, and return when it is ready. Raises DemoFailed with its log."""
    credentials, log = home / "credentials.json", home / "ramet.log"
    command = [*_RAMET, "up", "--data", str(home / "data"), "--port", "0", "--credentials-file", str(credentials)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=_environ(home), stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        _await_ready(process, credentials, log)
    except BaseException:
        _remove(home, process)
        raise
    found = json.loads(credentials.read_text())
    return Stage(home, process, found["base_url"], found["project_id"], found["public_key"], found["secret_key"])


def _await_ready(process: subprocess.Popen[bytes], credentials: Path, log: Path) -> None:
    deadline = time.monotonic() + _UP_WITHIN_SECONDS
    while not credentials.exists():
        if process.poll() is not None:
            raise DemoFailed(f"ramet up ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        if time.monotonic() > deadline:
            raise DemoFailed(f"ramet up was not ready after {_UP_WITHIN_SECONDS:g} s:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)


def _remove(home: Path, process: subprocess.Popen[bytes]) -> None:
    """End Ramet and its databases, unmount its storage, and remove all files."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(_END_WITHIN_SECONDS)
    data = home / "data"
    if has_storage(data):
        command = [*_RAMET, "down", "--data", str(data)]
        environ = _environ(home)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=180, check=False)
        if done.returncode != 0:
            raise DemoFailed(f"ramet down ended with {done.returncode}: {done.stderr[-1000:]}")
    shutil.rmtree(layout_of(data, data).sockets, ignore_errors=True)
    shutil.rmtree(home)


def program(name: str) -> str:
    """Return the path of one of PostgreSQL's client programs."""
    path = find_installations().default.bin / name
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        raise DemoFailed(f"{name} is not installed beside PostgreSQL in {path.parent} nor on PATH.")
    return found


def _environ(home: Path) -> dict[str, str]:
    """Return the environment of `ramet`: the user's own configuration stays out of it."""
    ours = [name for name in os.environ if name.startswith("RAMET_") and name != "RAMET_PG_BIN"]
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {
        **kept,
        "XDG_CONFIG_HOME": str(home / "config"),
        "RAMET_LOG_LEVEL": "WARNING",
        "RAMET_PLAINTEXT_ENDPOINTS": "on",
    }
