"""Which pg_dump `ramet db dump` runs, and that what it writes can be loaded into a server of the same version."""

import subprocess
from pathlib import Path

import pytest

from ramet.cli.commands import dumps
from ramet.cli.commands.databases import known_installations
from ramet.errors import Failed
from ramet.machine.installation import Installation
from tests.sources import MAJORS, OWNER, PASSWORD, open_source


def installation(folder: Path, major: int, minor: int = 1, *, has_tls: bool = True) -> Installation:
    """Return an installation that has the programs."""
    directory = folder / f"{major}.{minor}"
    directory.mkdir()
    for name in ("pg_dump", "pg_restore"):
        (directory / name).touch(0o755)
    return Installation(directory, directory, directory, major, minor, has_tls)


def known(monkeypatch: pytest.MonkeyPatch, *there: Installation) -> None:
    monkeypatch.setattr(dumps, "known_installations", lambda: there)
    monkeypatch.setenv("PATH", "")


def test_the_programs_are_those_of_the_version_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [installation(tmp_path, *version) for version in ((18, 1), (15, 1), (15, 9), (17, 1))]
    known(monkeypatch, *found)
    chosen = {major: dumps.find_dump_programs(major, needs_tls=True).name for major in (15, 16, 17, 18, None)}
    assert chosen == {15: "15.9", 16: "17.1", 17: "17.1", 18: "18.1", None: "18.1"}


def test_older_programs_and_those_without_tls_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, installation(tmp_path, 15), installation(tmp_path, 16, has_tls=False))
    assert dumps.find_dump_programs(16, needs_tls=False).name == "16.1"
    with pytest.raises(Failed, match="pg_dump of PostgreSQL 16 or newer has no TLS"):
        dumps.find_dump_programs(16, needs_tls=True)
    with pytest.raises(Failed, match="pg_dump of PostgreSQL 17 or newer is not installed"):
        dumps.find_dump_programs(17, needs_tls=False)


def test_a_dump_by_newer_programs_is_loaded_by_a_server_of_the_same_version(tmp_path: Path) -> None:
    """From 17 on they write a setting that servers before 17 refuse."""
    oldest, newest = MAJORS[0], max(known_installations(), key=lambda one: one.major)
    with open_source(oldest) as source:
        text = "SET transaction_timeout = 0;\nSET client_encoding"
        source.run(f"CREATE TABLE notes AS SELECT $${text}$$ AS note")
        source.run("CREATE DATABASE other")
        environ = {"PGPASSWORD": PASSWORD.reveal()}
        place = f"host={source.directory} port={source.own_port} user={OWNER}"
        script = dumps._dump(newest.bin, f"{place} dbname=shop", tmp_path, ["-b"], environ, oldest)
        psql = [str(newest.bin / "psql"), "-X", "-q", "--single-transaction", "--set", "ON_ERROR_STOP=1"]
        command = [*psql, "--file", str(script), f"{place} dbname=other"]
        loaded = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert (loaded.returncode, loaded.stderr) == (0, "")
        with source.connect("other") as other:
            assert other.execute("TABLE notes").fetchall() == [(text,)]
