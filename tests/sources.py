"""Databases outside of Ramet: real servers that require a password and TLS, and links to them that a test controls."""

import contextlib
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from harness.ports import free_port
from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.local.host.certificates import open_authority
from ramet.machine.installation import Installation, find_installations
from ramet.model.passwords import Secret
from tests import clusters

PASSWORD = Secret("pässword: with \\ and 'quotes'")
OWNER = "postgres"
MAJORS = tuple(sorted(find_installations().by_major))
_CHUNK = 16 * 1024
_SSL_REQUEST = bytes.fromhex("0000000804d2162f")


@dataclass
class Source:
    """A PostgreSQL server that asks for a password over TLS; `port` is where clients come in."""

    installation: Installation
    directory: Path
    root_certificate: str
    process: "subprocess.Popen[bytes]"
    own_port: int
    port: int = 0

    def url(self, database: str = "shop", user: str = OWNER, **parameters: str) -> str:
        """Return the address as a user writes it."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://{user}@localhost:{self.port}/{database}" + (f"?{query}" if query else "")

    def run(self, script: str, database: str = "shop") -> None:
        """Execute statements as the superuser."""
        with self.connect(database) as connection:
            connection.execute(script.encode())

    def connect(self, database: str = "shop") -> "psycopg.Connection[tuple[object, ...]]":
        """Open a session of the superuser over the server's own socket."""
        return psycopg.connect(
            host=str(self.directory), port=self.own_port, user=OWNER, dbname=database, autocommit=True,
            password=PASSWORD.reveal(), connect_timeout=30,
        )  # fmt: skip

    def kill(self) -> None:
        """End the server as a fault would."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(BOUND_SECONDS)


@dataclass
class Link:
    """A TCP port that leads to a server, with TLS where the server has none, as slowly as `pause` says."""

    target: int
    context: ssl.SSLContext | None = None
    pause_seconds: float = 0.0
    passed: int = 0
    port: int = field(default_factory=free_port)
    open: list[socket.socket] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is shut down."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.open.append(client)
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def cut(self) -> None:
        """Cut every connection."""
        for one in list(self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
            near = self._begin_tls(client)
            with near:
                while True:
                    waiting = isinstance(near, ssl.SSLSocket) and near.pending()
                    ready = [near] if waiting else select.select([near, server], [], [])[0]
                    for one in ready:
                        chunk = one.recv(_CHUNK)
                        if not chunk:
                            return
                        self.passed += len(chunk)
                        time.sleep(self.pause_seconds)
                        (server if one is near else near).sendall(chunk)

    def _begin_tls(self, client: socket.socket) -> socket.socket:
        if self.context is None:
            return client
        if client.recv(len(_SSL_REQUEST)) != _SSL_REQUEST:
            client.close()
            raise OSError("TLS is required")
        client.sendall(b"S")
        return self.context.wrap_socket(client, server_side=True)


@contextlib.contextmanager
def open_link(target: int, context: ssl.SSLContext | None = None) -> Iterator[Link]:
    """Open a link to a port of this host; at the end its connections are cut."""
    link = Link(target, context)
    with socket.create_server(("127.0.0.1", link.port)) as listener:
        acceptor = threading.Thread(target=link.serve, args=(listener,), daemon=True)
        acceptor.start()
        try:
            yield link
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            link.cut()


@contextlib.contextmanager
def open_source(major: int) -> Iterator[Source]:
    """Run a server of a version with an empty database `shop`; at the end nothing is left of it."""
    installation = find_installations().by_major[major]
    directory = Path(tempfile.mkdtemp(prefix="ramet-source-"))
    user = "nobody" if os.geteuid() == 0 else None
    issued = open_authority(directory / "secrets").issue("source", ["localhost"], datetime.now(UTC))
    for name, content in (("server.crt", issued.certificate), ("server.key", issued.key)):
        path = directory / name
        path.touch(0o600)
        path.write_text(content)
        if user is not None:
            shutil.chown(path, user)
    if user is not None:
        shutil.chown(directory, user)
    root = (directory / "secrets" / "ca.crt").read_text()
    try:
        _initialize(installation, directory, user)
        port = free_port()
        process = _start(installation, directory, port, user)
        source = Source(installation, directory, root, process, port, port)
        try:
            eventually(lambda: answers(source), "the source")
            source.run("CREATE DATABASE shop TEMPLATE template0", "postgres")
            with _with_tls(source):
                yield source
        finally:
            if source.process.poll() is None:
                source.process.send_signal(signal.SIGINT)
                source.process.wait(BOUND_SECONDS)
    finally:
        shutil.rmtree(directory)


@contextlib.contextmanager
def _with_tls(source: Source) -> Iterator[None]:
    """Put TLS in front of a server that was built without it."""
    if source.installation.has_tls:
        yield
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(source.directory / "server.crt", source.directory / "server.key")
    with open_link(source.own_port, context) as link:
        source.port = link.port
        yield


def _initialize(installation: Installation, directory: Path, user: str | None) -> None:
    """Give a source a cluster of its own."""
    options = ("-U", OWNER, "-A", "scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8")
    made = clusters.initialized(installation.program("initdb"), user, *options, password=PASSWORD.reveal())
    clusters.copy(made, directory / "data")
    kind = "hostssl" if installation.has_tls else "host"
    (directory / "data" / "pg_hba.conf").write_text(f"local all all scram-sha-256\n{kind} all all all scram-sha-256\n")


def _start(installation: Installation, directory: Path, port: int, user: str | None) -> "subprocess.Popen[bytes]":
    settings = {
        "fsync": "off", "listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": str(directory),
        "logging_collector": "off", "password_encryption": "scram-sha-256", "wal_level": "logical",
        "max_locks_per_transaction": "1024",
    }  # fmt: skip
    if installation.has_tls:
        files = {"ssl_cert_file": str(directory / "server.crt"), "ssl_key_file": str(directory / "server.key")}
        settings |= {"ssl": "on", **files}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = [installation.program("postgres"), "-D", str(directory / "data"), *options]
    environ = {**os.environ, "HOME": str(directory)}  # libpq in the server looks there for certificates
    return subprocess.Popen(command, user=user, cwd=directory, env=environ, stderr=subprocess.DEVNULL)


def answers(source: Source) -> bool:
    try:
        source.connect("postgres").close()
    except psycopg.OperationalError:
        return False
    return True
