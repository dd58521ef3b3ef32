"""Hosts for tests: a data directory, a home, and `ramet up` as a process with real servers behind it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.waiting import eventually
from ramet.backends.local.host.paths import layout_of
from ramet.client import Client
from tests.backends.local.hosts import data_root

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
    def log(self) -> str:
        """What `ramet up` wrote so far."""
        return (self.root / "ramet.log").read_text()

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
        eventually(lambda: file.exists() or process.poll() is not None)
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


@contextmanager
def open_host() -> Iterator[Host]:
    """Make a host; at the end of the block its processes and databases end, and nothing of it is left."""
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
