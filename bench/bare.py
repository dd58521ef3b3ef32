"""PostgreSQL without Ramet: a server started by exec on a data directory, watched each millisecond, ended by signal."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from ramet.machine.installation import find_installations

_LOOK_EVERY_SECONDS = 0.001
_SERVES_WITHIN_SECONDS = 600.0
_PORT = 5999


@dataclass(frozen=True)
class Bare:
    """Where bare servers run: PostgreSQL's programs, the user that they run as, and a directory for sockets."""

    programs: Path
    user: str
    sockets: Path
    port: int = _PORT

    def program(self, name: str) -> str:
        """Return the path of one of PostgreSQL's programs."""
        return str(self.programs / name)

    def own(self, path: Path) -> None:
        """Give a tree to the servers' user."""
        subprocess.run(["chown", "-R", f"{self.user}:", str(path)], check=True)

    def initialize(self, data: Path) -> None:
        """Make an empty cluster that was stopped cleanly."""
        data.mkdir(mode=0o700)
        self.own(data)
        self._run([self.program("initdb"), "-D", str(data), "-U", "ramet", "--auth=trust", "--no-sync", "-k"])

    def started(self, data: Path, settings: Sequence[str] = ()) -> float:
        """Start a server, ask it for 1, and end it at once; return the milliseconds from exec to the answer."""
        with self.serving(data, settings) as milliseconds:
            return milliseconds

    @contextlib.contextmanager
    def serving(self, data: Path, settings: Sequence[str] = ()) -> Iterator[float]:
        """Run a server on a data directory; yield how many milliseconds its start took."""
        begun = time.perf_counter()
        command = [self.program("postgres"), "-D", str(data), *self._arguments(settings)]
        with (data.parent / f"{data.name}.log").open("wb") as log:
            server = subprocess.Popen(
                command, stdout=log, stderr=log, user=self.user, group=_group(self.user), start_new_session=True
            )
        try:
            self._await(server, data)
            yield 1000 * (time.perf_counter() - begun)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(120)

    def _arguments(self, settings: Sequence[str]) -> list[str]:
        """Return the settings of a bare server as arguments: the same size of buffers as a shared service has."""
        own = (f"unix_socket_directories={self.sockets}", "listen_addresses=", f"port={self.port}")
        return [part for setting in (*own, "shared_buffers=32MB", *settings) for part in ("-c", setting)]

    def _await(self, server: "subprocess.Popen[bytes]", data: Path) -> None:
        deadline = time.monotonic() + _SERVES_WITHIN_SECONDS
        while not _is_ready(data):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((data.parent / f"{data.name}.log").read_text()[-2000:])
            time.sleep(_LOOK_EVERY_SECONDS)
        with psycopg.connect(host=str(self.sockets), port=self.port, user="ramet", dbname="postgres") as connection:
            connection.execute("SELECT 1")

    def _run(self, command: Sequence[str]) -> None:
        subprocess.run(command, check=True, capture_output=True, user=self.user, group=_group(self.user), cwd="/")


@contextlib.contextmanager
def bare(user: str = "ramet") -> Iterator[Bare]:
    """Yield the means to run bare servers, and remove them in the end."""
    sockets = Path(f"/tmp/ramet-bench-{os.getpid()}")
    sockets.mkdir(mode=0o700)
    shutil.chown(sockets, user)
    try:
        yield Bare(find_installations().default.bin, user, sockets)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def _group(user: str) -> int:
    return pwd.getpwnam(user).pw_gid


def _is_ready(data: Path) -> bool:
    try:
        return (data / "postmaster.pid").read_text().splitlines()[7].strip() == "ready"
    except (OSError, IndexError):
        return False
