"""The commands of docs/survive-loss.md bring services back as they stand there, and so do Barman's in docs/archive.md.

Names of the bucket, of directories and of the service are replaced, and "10 minutes ago" by a time of the test.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from harness.instance import Instance, connect, open_instance
from harness.ports import free_port
from harness.waiting import eventually
from ramet.archive.object_store import Bucket
from ramet.machine.installation import find_installations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_DOCS = Path(__file__).parents[2] / "docs"
_PROGRAMS = Path(__file__).parents[2] / ".venv" / "bin"
_INSERT = "INSERT INTO orders VALUES (%s)"


def commands_of_page() -> list[str]:
    """Return the commands of the page in their order."""
    page = (_DOCS / "survive-loss.md").read_text()
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)]


def commands_of_barman() -> str:
    """Return the commands of the section about Barman."""
    _, section = (_DOCS / "archive.md").read_text().split("## Restore a service with Barman\n")
    [block] = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    return textwrap.dedent(block)


class Shop:
    """A service with orders: 1 and 2 are older than `between`, 3 is newer."""

    def __init__(self, instance: Instance) -> None:
        made = instance.ask("POST", "/services", {"name": "shop", "environment_tag": "PROD"})
        self.service_id, self.password = made["service_id"], made["initial_password"]
        self.port = self._await_ready(instance)
        with self.connect() as connection:
            connection.execute("CREATE TABLE orders (n int)")
            connection.execute(_INSERT, (1,))
            connection.execute(_INSERT, (2,))
        self.between = datetime.now(UTC)
        instance.await_archived(self.service_id)
        with self.connect() as connection:
            connection.execute(_INSERT, (3,))
        instance.await_archived(self.service_id)

    def _await_ready(self, instance: Instance) -> int:
        path = f"/services/{self.service_id}"
        eventually(lambda: instance.ask("GET", path)["status"] == "READY", "the service", 0.1)
        return int(instance.ask("GET", path)["endpoint"]["port"])

    def connect(self) -> "psycopg.Connection[tuple[int]]":
        return connect(self.port, self.password)

    def orders(self) -> list[int]:
        with self.connect() as connection:
            return [n for (n,) in connection.execute("SELECT n FROM orders ORDER BY n").fetchall()]


@contextmanager
def machine(bucket: Bucket, services: range | None = None) -> Iterator[Instance]:
    """A machine on which nothing runs yet, with variables that lead to the object store."""
    with open_instance() as made:
        made.services = services or made.services
        made.environment["RAMET_ARCHIVE_URL"] = bucket.url
        made.environment["RAMET_DATA_DIR"] = str(made.data)
        made.environment["RAMET_PORT_RANGE"] = f"{made.services.start}-{made.services.stop - 1}"
        made.environment["PATH"] = f"{_PROGRAMS}:{os.environ['PATH']}"
        yield made


def typed(instance: Instance, command: str, directory: Path) -> str:
    """Run a command as a person types it, and return what it prints."""
    done = instance.run_shell(command, directory)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_commands_of_the_page_bring_services_back(bucket: Bucket, tmp_path: Path) -> None:
    save_key, list_contents, recover_all, recover_one, start = commands_of_page()
    assert start == "ramet up"  # which keeps running: the harness starts it
    with machine(bucket) as lost:
        lost.up()
        shop, ports = Shop(lost), lost.services
        typed(lost, save_key, tmp_path)
    with machine(bucket, ports) as other:
        assert "shop" in typed(other, list_contents, tmp_path)
        typed(other, recover_all, tmp_path)
        other.port = free_port()  # the one from before the recovery may be taken by now
        other.up()
        assert shop.orders() == [1, 2, 3]
    with machine(bucket, ports) as third:
        at_time = recover_one.replace("'10 minutes ago'", shlex.quote(shop.between.isoformat()))
        assert at_time != recover_one
        typed(third, at_time, tmp_path)
        third.port = free_port()
        third.up()
        assert shop.orders() == [1, 2]


class Restored:
    """A server that Barman's commands make as the system user postgres, in a directory of it."""

    def __init__(self, commands: str, bucket: Bucket, shop: Shop, place: Path) -> None:
        self.data, self.place = place / "restored", place
        bin_directory = Path(find_installations().default.program("pg_ctl")).parent
        self._variables = {
            **os.environ,
            "PATH": f"{_PROGRAMS}:{bin_directory}:{os.environ['PATH']}",
            "PGPORT": str(free_port()),
            "PGCTLTIMEOUT": "600",
        }
        names = {"/var/lib/postgresql/restored": str(self.data), "s3://bucket/prefix": bucket.url}
        for printed, name in {**names, "SERVER_NAME": shop.service_id}.items():
            assert printed in commands
            commands = commands.replace(printed, name)
        self.commands = commands

    def run(self, commands: str) -> "subprocess.CompletedProcess[str]":
        """Run commands as postgres, who may read the programs of the tests although they are root's."""
        user = ["--reuid=postgres", "--regid=postgres", "--init-groups"]
        capability = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        with tempfile.TemporaryFile("w+") as output:  # the server keeps it open
            done = subprocess.run(
                ["setpriv", *user, *capability, "bash", "-euc", commands],
                cwd=self.place,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=600,
                check=False,
            )
            output.seek(0)
            return subprocess.CompletedProcess(commands, done.returncode, output.read())

    def orders(self) -> list[int]:
        """Return the orders; an empty list until recovery has ended."""
        found = self.run("psql -U ramet tsdb -Atc 'SELECT n FROM orders ORDER BY n'")
        return [int(line) for line in found.stdout.split()] if found.returncode == 0 else []


@pytest.fixture
def place_of_postgres() -> Iterator[Path]:
    """A directory that the system user postgres can reach."""
    with tempfile.TemporaryDirectory(prefix="ramet-test-", dir="/tmp") as name:
        shutil.chown(name, "postgres", "postgres")
        yield Path(name)


@pytest.mark.root
def test_the_commands_for_barman_restore_a_service_without_ramet(bucket: Bucket, place_of_postgres: Path) -> None:
    install, commands = commands_of_barman().split("\n", 1)
    assert install == "pip install 'barman[cloud]'"  # which script/setup did
    with machine(bucket) as lost:
        lost.up()
        shop = Shop(lost)
    restored = Restored(commands, bucket, shop, place_of_postgres)
    try:
        done = restored.run(restored.commands)
        assert done.returncode == 0, done.stdout
        eventually(lambda: restored.orders() == [1, 2, 3], "the restored orders", 0.2)
    finally:
        restored.run(f"pg_ctl -D {restored.data} -m immediate stop")
