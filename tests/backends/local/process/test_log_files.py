"""The last words of a server, and what is kept of its log."""

import json
import os
import time
from pathlib import Path

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    (tmp_path / "log").mkdir()
    return ServicePaths(tmp_path, tmp_path / "sockets")


def _write(paths: ServicePaths, name: str, *messages: str, age: int) -> None:
    file = paths.log / name
    entries = [{"error_severity": "LOG", "message": text, "statement": "secret", "detail": "x"} for text in messages]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    os.utime(file, (1000 - age, 1000 - age))


def test_last_lines_are_the_newest_lines_without_statements(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", "old", age=9)
    _write(paths, "server-2.json", *(f"line {n}" for n in range(30)), age=5)
    words = log_files.last_lines(paths).splitlines()
    assert words == [f"LOG:  line {n}" for n in range(10, 30)]


def test_last_lines_have_no_secrets_that_messages_quote(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", 'syntax error at or near "hunter2"', "cannot reach postgres://app:pw@db/x", age=5)
    assert log_files.last_lines(paths).splitlines() == [
        'LOG:  syntax error at or near "***"',
        "LOG:  cannot reach postgres://app:***@db/x",
    ]


def test_a_message_that_is_no_utf8_is_among_the_last_lines(paths: ServicePaths) -> None:
    (paths.log / "server-1.json").write_bytes(b'{"error_severity": "FATAL", "message": "role \xe9 does not exist"}\n')
    assert log_files.last_lines(paths) == "FATAL:  role \ufffd does not exist"


def test_messages_of_a_failed_start_come_last(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", "of the run before", age=5)
    paths.start_log.write_text("FATAL:  no such library\nSTATEMENT:  secret\n")
    assert log_files.last_lines(paths).splitlines() == ["LOG:  of the run before", "FATAL:  no such library"]


def test_a_torn_line_is_left_out(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", "whole", age=5)
    with (paths.log / "server-1.json").open("a") as file:
        file.write('{"message": "to')
    assert [entry["message"] for entry in log_files.entries(paths)] == ["whole"]


@pytest.mark.parametrize("kind", ["json", "log"])
def test_files_beyond_the_bounds_go_oldest_first_and_the_current_one_stays(paths: ServicePaths, kind: str) -> None:
    sizes = {1: 10, 2: log_files.KEPT_BYTES // 2, 3: log_files.KEPT_BYTES // 3, 4: log_files.KEPT_BYTES}
    for number, size_bytes in sizes.items():
        with (paths.log / f"server-{number}.{kind}").open("wb") as file:
            file.truncate(size_bytes)
    log_files.prune(paths, time.time())
    assert [file.name for file in paths.log.iterdir()] == [f"server-4.{kind}"]


@pytest.mark.parametrize("kind", ["json", "log"])
def test_old_files_go_but_for_the_current_one(paths: ServicePaths, kind: str) -> None:
    for number, age in ((1, log_files.KEPT_SECONDS + 3), (2, log_files.KEPT_SECONDS + 2)):
        _write(paths, f"server-{number}.{kind}", "x", age=age)
    log_files.prune(paths, 1000)
    assert [file.name for file in paths.log.iterdir()] == [f"server-2.{kind}"]
    _write(paths, f"server-3.{kind}", "x", age=log_files.KEPT_SECONDS - 1)
    log_files.prune(paths, 1000)
    assert [file.name for file in paths.log.iterdir()] == [f"server-3.{kind}"]


@pytest.mark.parametrize("kind", ["json", "log"])
def test_files_of_before_the_clock_was_set_back_are_the_oldest(paths: ServicePaths, kind: str) -> None:
    for number, age in ((2099, -70), (2098, -90), (1970, 5)):
        _write(paths, f"server-{number}.{kind}", "x", age=age)
        os.truncate(paths.log / f"server-{number}.{kind}", log_files.KEPT_BYTES // 2 + 1)
        os.utime(paths.log / f"server-{number}.{kind}", (1000 - age, 1000 - age))
    log_files.prune(paths, 1000)
    assert [file.name for file in paths.log.iterdir()] == [f"server-1970.{kind}"]


@pytest.mark.parametrize("kind", ["json", "log"])
def test_the_file_that_the_server_writes_to_stays(paths: ServicePaths, kind: str) -> None:
    paths.data.mkdir()
    (paths.data / "current_logfiles").write_text(f"jsonlog {paths.log}/server-2.json\n")
    for number in (1, 2, 3):
        _write(paths, f"server-{number}.{kind}", "x", age=log_files.KEPT_SECONDS + 9 - number)
    log_files.prune(paths, 1000)
    assert [file.name for file in paths.log.iterdir()] == [f"server-2.{kind}"]


@pytest.mark.parametrize("fails", [True, False], ids=["failed", "killed"])
def test_a_start_is_judged_by_its_log_also_after_the_clock_was_set_back(paths: ServicePaths, fails: bool) -> None:
    severity = {True: "FATAL", False: "LOG"}
    ahead_seconds = time.time() + 86400
    for name, is_fatal in (("server-20990102T000000.json", not fails), ("server-20990101T000000.json", not fails)):
        _end(paths.log / name, severity[is_fatal])
        os.utime(paths.log / name, (ahead_seconds, ahead_seconds))
    started_ns = (paths.log / name).stat().st_ctime_ns
    _end(paths.log / "server-20260101T000000.json", severity[fails])
    assert log_files.failed_to_start(paths, started_ns) is fails
    assert log_files.last_lines(paths) == f"{severity[fails]}:  server-20260101T000000.json"


def _end(file: Path, severity: str) -> None:
    entry = {"error_severity": severity, "message": file.name, "backend_type": "postmaster"}
    file.write_text(json.dumps(entry) + "\n")


def test_a_missing_archive_or_checksum_file_is_no_fault(paths: ServicePaths) -> None:
    log_files.prune(paths, 1000)
    assert list(paths.log.iterdir()) == []


def test_a_server_without_a_log_has_no_last_lines(paths: ServicePaths) -> None:
    assert log_files.last_lines(paths) == ""
