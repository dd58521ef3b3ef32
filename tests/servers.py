"""The PostgreSQL of this host, and a throw-away server for the tests on a free port of the loopback interface."""

import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import BOUND_SECONDS, eventually
from ramet.machine.installation import find_installations
from tests import clusters

BIN = Path("/usr/lib/postgresql/15/bin")
installations = functools.cache(find_installations)
"""The installations of this host: to ask each of them takes long, and several modules do so when they are imported."""

_OPTIONS = ("fsync=off", "listen_addresses=127.0.0.1", "max_connections=200", "logging_collector=off")


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a server and give its URL (SQLAlchemy's, with psycopg); skip where the host has no PostgreSQL 15."""
    if not (BIN / "postgres").exists():
        pytest.skip("PostgreSQL 15 is not installed in /usr/lib/postgresql/15")
    directory = Path(tempfile.mkdtemp(prefix="ramet-test-pg-"))
    user = _account()
    if user is not None:
        shutil.chown(directory, user)
    port = free_port()
    try:
        clusters.copy(clusters.initialized(str(BIN / "initdb"), user, "-U", "ramet", "-A", "trust"), directory / "data")
        server = subprocess.Popen(_command(directory, port), user=user, cwd=directory, stderr=subprocess.DEVNULL)
        try:
            _await(port)
            yield f"postgresql+psycopg://ramet@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(BOUND_SECONDS)
            finally:
                server.kill()
    finally:
        shutil.rmtree(directory)


@contextmanager
def database(server_url: str, name: str) -> Iterator[str]:
    """Make an empty database on a server and give its URL; it is dropped at the end."""
    with psycopg.connect(server_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield server_url.rsplit("/", 1)[0] + f"/{name}"
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _command(directory: Path, port: int) -> list[str]:
    settings = [*_OPTIONS, f"port={port}", f"unix_socket_directories={directory}"]
    options = [argument for setting in settings for argument in ("-c", setting)]
    return [str(BIN / "postgres"), "-D", str(directory / "data"), *options]


def _account() -> str | None:
    """Return the user to run as: PostgreSQL refuses root."""
    return "nobody" if os.geteuid() == 0 else None


def _await(port: int) -> None:
    def serves() -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(host="127.0.0.1", port=port, user="ramet", dbname="postgres").close()
            return True
        return False

    eventually(serves, "PostgreSQL")
