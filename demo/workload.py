"""What happens to the parent: pgbench, and a client that appends numbered rows and notes each acknowledgement."""

import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from demo.stage import DemoFailed, program
from ramet.api.schemas.services import Service
from ramet.cli.connection import speaks_tls
from ramet.endpoints import ADMIN, DATABASE, ssl_mode

_LEDGER = "CREATE TABLE ledger (n bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())"
_PAUSE_SECONDS = 0.002


@dataclass(frozen=True)
class Address:
    """Where a service's clients connect to, and with what."""

    host: str
    port: int
    password: str = field(repr=False)
    mode: str = "require"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect as the admin."""
        return psycopg.connect(
            make_conninfo(
                host=self.host,
                port=self.port,
                user=ADMIN,
                dbname=DATABASE,
                password=self.password,
                sslmode=self.mode,
                connect_timeout=10,
            ),
            autocommit=True,
        )

    def environ(self) -> dict[str, str]:
        """Return the variables by which PostgreSQL's own programs connect."""
        return {
            **os.environ,
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": ADMIN,
            "PGDATABASE": DATABASE,
            "PGPASSWORD": self.password,
            "PGSSLMODE": self.mode,
        }


def address_of(service: Service, password: str) -> Address:
    """Return the address of a READY service."""
    return Address(service.endpoint.host, service.endpoint.port, password, ssl_mode(speaks_tls(service.endpoint)))


def load(address: Address, scale: int) -> None:
    """Fill the tables of pgbench. Raises DemoFailed with what it said."""
    command = [program("pgbench"), "--initialize", "--quiet", f"--scale={scale}"]
    done = subprocess.run(command, env=address.environ(), capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise DemoFailed(f"pgbench --initialize ended with {done.returncode}: {done.stderr[-1000:]}")


class Pgbench:
    """pgbench that keeps on until it is stopped."""

    def __init__(self, address: Address, clients: int) -> None:
        command = [program("pgbench"), "--no-vacuum", f"--client={clients}", "--jobs=1", "--time=3600"]
        self._process = subprocess.Popen(
            [*command, "--protocol=prepared"],
            env=address.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def check(self) -> None:
        """Raise DemoFailed when it has ended on its own."""
        if self._process.poll() is not None:
            _, said = self._process.communicate()
            raise DemoFailed(f"pgbench on the parent ended with {self._process.returncode}: {said[-1000:]}")

    def stop(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate(timeout=30)


class Ledger:
    """A client that appends 1, 2, 3 … in a transaction each. `acknowledged` is the last number that was committed."""

    def __init__(self, address: Address) -> None:
        self._connection = address.connect()
        self._connection.execute(_LEDGER)
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self.acknowledged = 0
        self._thread = threading.Thread(target=self._append, name="ledger", daemon=True)
        self._thread.start()

    def await_rows(self, number: int) -> None:
        """Wait until so many rows are there. Raises DemoFailed when the client stopped."""
        deadline = time.monotonic() + 60
        while self.acknowledged < number:
            if time.monotonic() > deadline:
                raise DemoFailed(f"the ledger has only {self.acknowledged} rows after a minute")
            self.check()
            time.sleep(0.01)

    def check(self) -> None:
        """Raise DemoFailed when the parent ever refused a row: a fork must not harm it."""
        if self._failure is not None:
            raise DemoFailed(f"the ledger's client failed on the parent: {self._failure}") from self._failure

    def stop(self) -> None:
        """End the client."""
        self._stopping.set()
        self._thread.join(30)
        self._connection.close()

    def _append(self) -> None:
        try:
            while not self._stopping.wait(_PAUSE_SECONDS):
                self._connection.execute("INSERT INTO ledger (n) VALUES (%s)", (self.acknowledged + 1,))
                self.acknowledged += 1
        except psycopg.Error as error:
            self._failure = error
