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
    for number, age in (
        (1, log_files.KEPT_SECONDS + 1),
        (2, log_files.KEPT_SECONDS - 1),
        (3, log_files.KEPT_SECONDS + 1),
    ):
        _write(paths, f"server-{number}.{kind}", "x", age=int(age))
    log_files.prune(paths, 1000)
    assert sorted(file.name for file in paths.log.iterdir()) == [f"server-2.{kind}", f"server-3.{kind}"]


def test_a_missing_archive_or_checksum_file_is_no_fault(paths: ServicePaths) -> None:
    log_files.prune(paths, 1000)
    assert list(paths.log.iterdir()) == []


def test_a_server_without_a_log_has_no_last_lines(paths: ServicePaths) -> None:
    assert log_files.last_lines(paths) == ""
