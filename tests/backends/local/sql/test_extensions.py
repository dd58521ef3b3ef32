"""Extensions are updated as the platform, and states of before an update are refused where they need what is gone."""

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import ExtensionUpdate, Server
from ramet.backends.local.host import files
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, extensions
from ramet.errors import Invalid, Unavailable
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, data_root, new_server, restart
from tests.servers import installations

GATE = 12  # an advisory lock
SINCE = 18  # extension_control_path: an extension need not be in the installation
MAJORS = [one.major for one in installations().found if one.major >= SINCE]
# PostgreSQL looks into a library when a function is created, so that one that is gone takes a change afterwards.
FUNCTION = "CREATE OR REPLACE FUNCTION answer() RETURNS int LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_validator';"
GONE = "UPDATE pg_proc SET probin = '$libdir/stepping-1.0' WHERE proname = 'answer'"


@dataclass(frozen=True)
class Stepping:
    """A service with an extension whose library is called by its version, as TimescaleDB's is; there is none."""

    instances: Instances
    server: Server
    password: Secret
    share: Path

    def offer(self, version: str, *scripts: str) -> None:
        """Install a version of the extension on the host: its control file, and scripts such as '1.0--2.0'."""
        directory = self.share / "extension"
        (directory / "stepping.control").write_text(f"default_version = '{version}'\nrelocatable = true\n")
        for script in scripts:
            (directory / f"stepping--{script}.sql").write_text(FUNCTION)
        for path in directory.iterdir():
            path.chmod(0o644)

    def update(self, name: str | None = None) -> list[ExtensionUpdate]:
        return extensions.update(self.instances.paths(self.server.service_id), name) or []

    @contextlib.contextmanager
    def gate_closed(self) -> Iterator[Callable[[], bool]]:
        """Keep the scripts that take the lock GATE waiting in database second; yields whether one is."""
        waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted)"
        with connections.connect(self.instances.paths(self.server.service_id), "second") as platform:
            platform.execute("SELECT pg_advisory_lock(%s)", (GATE,))
            yield lambda: platform.execute(waiting, (GATE,)).fetchone() == (True,)

    def check(self, restore_time: datetime) -> None:
        paths = self.instances.paths(self.server.service_id)
        extensions.check_past(paths, self.instances.installations.of(self.server.pg_major), restore_time)

    def versions(self) -> list[str]:
        found = []
        for database in ("tsdb", "second"):
            with connect(self.server, self.password, dbname=database, sslmode="prefer") as admin:
                row = admin.execute("SELECT extversion FROM pg_extension WHERE extname = 'stepping'").fetchone()
                found.append(str(row and row[0]))
        return found


@pytest.fixture(params=MAJORS)
def stepping(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Stepping]:
    password = new_password()
    server = new_server(instances, password, pg_major=request.param)
    with data_root() as share:
        (share / "extension").mkdir(mode=0o755)
        made = Stepping(instances, server, password, share)
        made.offer("1.0", "1.0")
        boot(instances, server)
        eventually(lambda: instances.stop(server, 10))
        instances.config.make_sockets(instances.paths(server.service_id))
        directories = f"extension_control_path = '{share}:$system'\n"
        files.write(instances.paths(server.service_id).sockets / "path.conf", directories)
        restart(instances, server)
        instances.secure(server, is_new=True, neutralize=False)
        instances.open(server)
        with connect(server, password, sslmode="prefer") as admin:
            admin.execute("CREATE DATABASE second")
        for database in ("tsdb", "second"):
            with connections.connect(instances.paths(server.service_id), database) as platform:
                platform.execute("CREATE EXTENSION stepping SCHEMA public")
                platform.execute(GONE)
        yield made
        instances.remove(server.service_id, 10)


def test_an_extension_of_the_platform_is_updated_in_every_database_without_its_old_library(stepping: Stepping) -> None:
    assert stepping.update() == []
    stepping.offer("2.0", "1.0--2.0")
    with (
        connect(stepping.server, stepping.password, sslmode="prefer") as admin,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of extension"),
    ):
        admin.execute("ALTER EXTENSION stepping UPDATE")
    made = stepping.update("stepping")
    assert made == [ExtensionUpdate(database, "stepping", "1.0", "2.0") for database in ("second", "tsdb")]
    assert stepping.versions() == ["2.0", "2.0"]
    assert stepping.update() == []


def test_others_are_left_alone_when_one_is_named(stepping: Stepping) -> None:
    stepping.offer("2.0", "1.0--2.0")
    assert stepping.update("plpgsql") == []
    assert stepping.versions() == ["1.0", "1.0"]


def test_an_extension_without_an_update_path_stays_and_is_reported(stepping: Stepping) -> None:
    stepping.offer("3.0", "2.0--3.0")
    problems = [one.problem or "" for one in stepping.update()]
    assert len(problems) == 2
    assert all("no update from 1.0 to 3.0" in problem for problem in problems)
    assert stepping.versions() == ["1.0", "1.0"]


def test_a_failing_update_script_changes_nothing_and_is_reported(stepping: Stepping) -> None:
    stepping.offer("2.0", "1.0--2.0")
    (stepping.share / "extension" / "stepping--1.0--2.0.sql").write_text("SELECT no_such_function();")
    assert ["no_such_function" in str(one.problem) for one in stepping.update()] == [True, True]
    assert stepping.versions() == ["1.0", "1.0"]


def test_a_second_update_at_the_same_time_is_refused_and_the_record_of_the_first_stays(stepping: Stepping) -> None:
    before = datetime.now(UTC)
    stepping.offer("2.0", "1.0--2.0")
    script = stepping.share / "extension" / "stepping--1.0--2.0.sql"
    script.write_text(f"SELECT pg_advisory_xact_lock({GATE}); {FUNCTION}")
    with ThreadPoolExecutor(1) as executor:
        with stepping.gate_closed() as is_waited_at:
            first = executor.submit(stepping.update)
            eventually(is_waited_at)
            with pytest.raises(Unavailable, match="Another request is updating extensions"):
                stepping.update()
        assert [one.problem for one in first.result()] == [None, None]
    with pytest.raises(Invalid, match=r"stepping 1\.0"):
        stepping.check(before)
    assert stepping.update() == []


def test_states_of_before_an_update_are_refused_while_their_library_is_missing(stepping: Stepping) -> None:
    before = datetime.now(UTC)
    stepping.check(before)
    stepping.offer("2.0", "1.0--2.0")
    stepping.update()
    stepping.check(datetime.now(UTC) + timedelta(seconds=1))
    with pytest.raises(Invalid, match=r"stepping 1\.0, whose library is not installed \(\$libdir/stepping-1\.0\)"):
        stepping.check(before)
    record = stepping.instances.paths(stepping.server.service_id).root / "extensions.json"
    found = json.loads(record.read_text())
    record.write_text(json.dumps([{**one, "libraries": ["$libdir/basic_archive"]} for one in found]))
    stepping.check(before)


def test_states_of_before_an_update_are_refused_when_its_process_ended_behind_it(
    stepping: Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = datetime.now(UTC)
    stepping.offer("2.0", "1.0--2.0")

    def end_behind(*where: object) -> str | None:
        update_one(*where)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    update_one = extensions._update_one
    monkeypatch.setattr(extensions, "_update_one", end_behind)
    with pytest.raises(KeyboardInterrupt):
        stepping.update()
    with pytest.raises(Invalid, match=r"stepping 1\.0, whose library is not installed"):
        stepping.check(before)


def test_an_update_that_failed_refuses_no_state(stepping: Stepping) -> None:
    stepping.offer("2.0", "1.0--2.0")
    (stepping.share / "extension" / "stepping--1.0--2.0.sql").write_text("SELECT no_such_function();")
    stepping.update()
    stepping.check(datetime.now(UTC))
