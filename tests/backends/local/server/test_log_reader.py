"""A server's log is read from its end, in pages that stay true while it grows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files
from ramet.backends.local.server import log_reader
from ramet.backends.local.server.instances import Instances
from ramet.errors import Invalid
from ramet.model.cursor import encode_cursor
from ramet.model.logs import LogEntry, LogQuery
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations

BEGIN = datetime(2026, 1, 15, 10, 0, 0, tzinfo=UTC)
SECRET = "hunter2-S3cret"
FAIL = (
    f"CREATE ROLE pg_reserved PASSWORD '{SECRET}'",
    f"ALTER ROLE nobody PASSWORD '{SECRET}'",
    f"CREATE ROLE broken PASSWORD '{SECRET}' LIGON",
    f"SELEKT {SECRET!r}",
    f"SELECT {SECRET!r} ) FROM nowhere",
    f"SELECT 1 / 0 -- {SECRET}",
    f"SELECT {SECRET!r} FROM nowhere",
)
QUOTED = (
    f"CREATE ROLE broken PASSWORD '{SECRET}",
    f'CREATE ROLE broken PASSWORD "{SECRET}"',
    f"CREATE ROLE broken PASSWORD 'x' '{SECRET}'",
    "CREATE ROLE broken PASSWORD hunter2_S3cret",
)


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    found = ServicePaths(tmp_path, tmp_path / "sockets")
    found.log.mkdir()
    return found


def write(
    paths: ServicePaths, first: int, last: int, file: str = "server-20260115T100000", severity: str = "LOG"
) -> None:
    with (paths.log / f"{file}.json").open("a") as log:
        for number in range(first, last):
            at = BEGIN + timedelta(seconds=number)
            stamp = at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d} UTC"
            log.write(json.dumps({"timestamp": stamp, "error_severity": severity, "message": f"line {number}"}) + "\n")


def numbers(page_entries: list[LogEntry]) -> list[int]:
    return [int(entry.message.split()[1]) for entry in page_entries]


def test_pages_lead_back_through_all_files_while_lines_arrive(paths: ServicePaths) -> None:
    write(paths, 0, 7)
    write(paths, 7, 12, "server-20260115T110000")
    seen, cursor, written = [], None, 12
    while True:
        page = log_reader.read_log(paths, LogQuery(cursor=cursor, limit=3))
        seen += numbers(page.entries)
        write(paths, written, written + 2, "server-20260115T110000")
        written += 2
        if page.cursor is None:
            break
        cursor = page.cursor
    assert seen == list(range(11, -1, -1))


def test_a_line_that_is_still_being_written_is_left_out(paths: ServicePaths) -> None:
    write(paths, 0, 2)
    with next(paths.log.iterdir()).open("a") as log:
        log.write('{"timestamp": "2026-01-15 10:00:09.000 UTC", "mess')
    assert numbers(log_reader.read_log(paths, LogQuery()).entries) == [1, 0]


def test_a_message_that_is_no_utf8_is_shown_as_far_as_it_is(paths: ServicePaths) -> None:
    write(paths, 0, 2)
    file = next(paths.log.iterdir())
    file.write_bytes(file.read_bytes().replace(b"line 1", b"caf\xe9 1"))
    assert [one.message for one in log_reader.read_log(paths, LogQuery()).entries] == ["caf\ufffd 1", "line 0"]


def test_since_and_until_are_bounds_that_belong_to_the_range(paths: ServicePaths) -> None:
    write(paths, 0, 10)
    query = LogQuery(since=BEGIN + timedelta(seconds=3), until=BEGIN + timedelta(seconds=5))
    page = log_reader.read_log(paths, query)
    assert (numbers(page.entries), page.cursor) == ([5, 4, 3], None)


def test_search_and_severities_choose(paths: ServicePaths) -> None:
    write(paths, 0, 20)
    write(paths, 20, 22, severity="ERROR")
    assert numbers(log_reader.read_log(paths, LogQuery(search=["LINE", "1"])).entries) == [21, *range(19, 9, -1), 1]
    assert numbers(log_reader.read_log(paths, LogQuery(severities=["error", "fatal"])).entries) == [21, 20]
    assert log_reader.read_log(paths, LogQuery(search=["nothing"])).entries == []


def test_a_page_reads_so_much_and_no_more(paths: ServicePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    write(paths, 0, 100)
    monkeypatch.setattr(log_reader, "_PAGE_BYTES", 1000)
    page, pages = log_reader.read_log(paths, LogQuery(search=["line 7 "])), 1
    while page.cursor is not None:
        page, pages = log_reader.read_log(paths, LogQuery(search=["line 7 "], cursor=page.cursor)), pages + 1
    assert 5 < pages < 20


def test_a_cursor_into_a_removed_file_continues_with_older_files(paths: ServicePaths) -> None:
    write(paths, 0, 3)
    write(paths, 3, 6, "server-20260115T110000")
    cursor = log_reader.read_log(paths, LogQuery(limit=2)).cursor
    (paths.log / "server-20260115T110000.json").unlink()
    assert numbers(log_reader.read_log(paths, LogQuery(cursor=cursor)).entries) == [2, 1, 0]


@pytest.mark.parametrize("cursor", ["x", "", "ä", "c2VydmVy", "!!!!", encode_cursor(f"a:{10**30}")])
def test_a_made_up_cursor_is_refused(paths: ServicePaths, cursor: str) -> None:
    with pytest.raises(Invalid, match=f"Invalid cursor {cursor!r}"):
        log_reader.read_log(paths, LogQuery(cursor=cursor))


def test_no_log_and_an_empty_one_have_no_entries(paths: ServicePaths) -> None:
    assert log_reader.read_log(paths, LogQuery()).entries == []
    (paths.log / "server-20260115T100000.json").touch()
    assert log_reader.read_log(paths, LogQuery()).entries == []


def test_a_real_servers_errors_are_read_and_its_secrets_are_not(instances: Instances) -> None:
    password = new_password()
    server: Server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    paths = instances.paths(server.service_id)
    with connect(server, password) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM unknown_table")
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("ALTER ROLE nobody_here PASSWORD 'hunter2hunter2'")
        connection.execute("DO $$ BEGIN RAISE WARNING 'role x password ''hunter2hunter2'' is odd'; END $$")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(server, "hunter2hunter2")
    eventually(
        lambda: any("authentication failed" in e.message for e in log_reader.read_log(paths, LogQuery()).entries)
    )
    entries = log_reader.read_log(paths, LogQuery()).entries
    assert [entry.at for entry in entries] == sorted((entry.at for entry in entries), reverse=True)
    assert any(entry.severity == "ERROR" and "unknown_table" in entry.message for entry in entries)
    assert not any("hunter2" in entry.message or "SCRAM" in entry.message for entry in entries)
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize("major", sorted(installations().by_major))
def test_statements_that_fail_do_not_show_the_passwords_in_them(instances: Instances, major: int) -> None:
    password = new_password()
    server = new_server(instances, password, pg_major=major)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    paths = instances.paths(server.service_id)
    with connect(server, password, sslmode="prefer") as client:
        for statement in FAIL:
            with pytest.raises(psycopg.Error):
                client.execute(statement.encode())
        eventually(lambda: any("nowhere" in entry["message"] for entry in log_files.entries(paths)))
        assert not any(SECRET in json.dumps(entry) for entry in log_files.entries(paths))
        for statement in QUOTED:
            with pytest.raises(psycopg.Error):
                client.execute(statement.encode())
        with pytest.raises(psycopg.Error):
            client.execute("SELECT 1 FROM the_last_one")
    eventually(lambda: any("the_last_one" in entry["message"] for entry in log_files.entries(paths)))
    read = [entry.message for entry in log_reader.read_log(paths, LogQuery()).entries]
    assert not any("hunter2" in message for message in read)
    assert 'syntax error at or near "SELEKT"' in read
    assert 'syntax error at or near ")"' in read
    assert sum("at or near" in message for message in read) == 2 + len(QUOTED)
    instances.remove(server.service_id, 10)
