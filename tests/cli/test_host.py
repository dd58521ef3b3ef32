"""`ramet up` and `ramet down` as processes, with real servers behind them."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from ramet.backends.local.paths import layout_of
from ramet.cli.connection import connection_string
from ramet.cli.credentials import read_credentials
from ramet.client import Client
from ramet.model.service import Status
from tests.backends.local.hosts import data_root, eventually

_RAMET = (sys.executable, "-m", "ramet")


@dataclass
class Host:
    """A place for a data directory, a home, and the processes that were started there."""

    root: Path
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def environ(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAMET_")}
        ports = f"{_free_port()}-65535"
        return {**kept, "HOME": str(self.root), "XDG_CONFIG_HOME": str(self.root / "config"), "RAMET_PORT_RANGE": ports}

    def up(self, *options: str) -> Client:
        """Run `ramet up` until it is ready; return a client with the key that it wrote."""
        file = self.root / "credentials.json"
        file.unlink(missing_ok=True)
        command = [*_RAMET, "up", "--data", str(self.data), "--port", "0", "--credentials-file", str(file), *options]
        with (self.root / "ramet.log").open("ab") as log:
            process = subprocess.Popen(command, env=self.environ, stdout=log, stderr=log)
        self.started.append(process)
        eventually(lambda: file.exists() or process.poll() is not None, 60)
        assert process.poll() is None, (self.root / "ramet.log").read_text()
        made = json.loads(file.read_text())
        return Client(made["base_url"], made["project_id"], made["public_key"], made["secret_key"])

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run another command to its end."""
        return subprocess.run(
            [*_RAMET, *words], env=self.environ, capture_output=True, text=True, timeout=120, check=False
        )

    def terminate(self) -> int:
        """End the latest process by SIGTERM and return its exit code."""
        self.started[-1].send_signal(signal.SIGTERM)
        return self.started[-1].wait(60)


@pytest.fixture
def host() -> Iterator[Host]:
    with data_root() as root:
        made = Host(root)
        try:
            yield made
        finally:
            for process in made.started:
                process.kill()
                process.wait(30)
            if made.data.exists():
                done = made.run("down", "--data", str(made.data))
                assert done.returncode in (0, 6), done.stderr
            shutil.rmtree(layout_of(made.data, made.data).sockets, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return min(port, 60000)


def _select_one(uri: str) -> None:
    with psycopg.connect(uri, connect_timeout=10) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_databases_outlive_up_and_end_with_down(host: Host) -> None:
    with host.up() as ramet:
        created = ramet.create_service("shop")
        ramet.wait_ready(created.service_id, 60)
    uri = connection_string(created.endpoint, str(created.initial_password))
    _select_one(uri)
    assert host.terminate() == 0
    _select_one(uri)

    with host.up() as ramet:
        assert [service.status for service in ramet.list_services()] == ["READY"]
        refused = host.run("up", "--data", str(host.data), "--port", "0")
        assert refused.returncode == 3
        assert f"pid {host.started[-1].pid}" in refused.stderr

    ended = host.run("down", "--data", str(host.data))
    assert ended.returncode == 0, ended.stderr
    assert host.started[-1].wait(30) == 0
    with pytest.raises(psycopg.OperationalError):
        _select_one(uri)

    with host.up() as ramet:
        eventually(lambda: ramet.get_service(created.service_id).status == Status.READY, 60)
        _select_one(uri)
        assert host.run("service", "delete", "shop", "--yes").returncode == 0


@pytest.mark.slow
def test_what_up_writes_is_private(host: Host) -> None:
    with host.up() as ramet:
        given = read_credentials(host.root / "credentials.json")
        assert given is not None
        assert given.base_url == ramet.base_url
        assert read_credentials(host.root / "config" / "ramet" / "credentials.json") == given
        for path in (host.root / "credentials.json", host.root / "config" / "ramet" / "credentials.json"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        readable = [path for path in host.data.iterdir() if path.is_file() and path.stat().st_mode & 0o077]
        assert readable == []
        assert given.secret_key.encode() not in (host.data / "ramet.db").read_bytes()
        assert given.secret_key not in (host.root / "ramet.log").read_text()


def test_a_taken_port_is_named(host: Host) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        refused = host.run("up", "--data", str(host.data), "--port", str(port), "--storage-driver", "copy")
    assert refused.returncode == 1
    assert str(port) in refused.stderr
