"""The last words of a server, and what is kept of its log."""

import json
import os
from pathlib import Path

import pytest

from ramet.backends.local import logs
from ramet.backends.local.paths import ServicePaths


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    (tmp_path / "log").mkdir()
    return ServicePaths(tmp_path, tmp_path / "sockets")


def _write(paths: ServicePaths, name: str, *messages: str, age: int) -> None:
    file = paths.log / name
    entries = [{"error_severity": "LOG", "message": text, "statement": "secret", "detail": "x"} for text in messages]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    os.utime(file, (1000 - age, 1000 - age))


def test_last_words_are_the_newest_lines_without_statements(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", "old", age=9)
    _write(paths, "server-2.json", *(f"line {n}" for n in range(30)), age=5)
    words = logs.last_words(paths).splitlines()
    assert words == [f"LOG:  line {n}" for n in range(10, 30)]


def test_words_of_a_start_that_failed_early_come_last(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", "of the run before", age=5)
    paths.start_log.write_text("FATAL:  no such library\nSTATEMENT:  secret\n")
    assert logs.last_words(paths).splitlines() == ["LOG:  of the run before", "FATAL:  no such library"]


def test_a_torn_line_is_left_out(paths: ServicePaths) -> None:
    _write(paths, "server-1.json", "whole", age=5)
    with (paths.log / "server-1.json").open("a") as file:
        file.write('{"message": "to')
    assert [entry["message"] for entry in logs.entries(paths)] == ["whole"]


def test_only_the_newest_files_are_kept(paths: ServicePaths) -> None:
    for number in range(12):
        _write(paths, f"server-{number:02}.json", "x", age=5)
    logs.prune(paths)
    assert [file.name for file in logs.files(paths)] == [f"server-{number:02}.json" for number in range(4, 12)]


def test_a_server_that_never_spoke_has_no_last_words(paths: ServicePaths) -> None:
    assert logs.last_words(paths) == ""
