"""Verifiers that are set in the files of a stopped server: PostgreSQL finds them, and finds nothing wrong."""

import struct
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.restore.offline_verifier import checksum, has_verifier, replace_verifier
from ramet.backends.local.sql import connections, roles
from ramet.backends.local.wal.segment import PAGE_BYTES
from ramet.machine.programs import complete
from ramet.model.passwords import new_password, scram_verifier
from ramet.model.secret import Secret
from tests.backends.local.forks import create, paths_of, run

_PAGE_WITHOUT_CHECKSUM = b"\0\0"


def new_verifier() -> Secret:
    return scram_verifier(new_password())


@pytest.fixture
def stopped(backend: LocalBackend) -> tuple[Server, Path, Secret]:
    """Return a server that was stopped after two roles got the same verifier, its pg_authid, and the verifier."""
    server, verifier = create(backend), new_verifier()
    with connections.connect(paths_of(backend, server)) as connection:
        for role in ("first", "second"):
            connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        changed = connection.execute(
            "UPDATE pg_authid SET rolpassword = %s WHERE rolname IN ('first', 'second')", (verifier.reveal(),)
        )
        assert changed.rowcount == 2
    file = roles.file_of_verifiers(paths_of(backend, server))
    backend.servers.stop(server)
    return server, paths_of(backend, server).data / file, verifier


def test_postgresql_finds_the_new_verifier_and_no_fault(
    backend: LocalBackend, stopped: tuple[Server, Path, Secret]
) -> None:
    server, pg_authid, verifier = stopped
    later = new_verifier()
    assert replace_verifier(pg_authid, verifier, later)
    assert has_verifier(pg_authid, later)
    assert not has_verifier(pg_authid, verifier)
    program = backend.instances.installations.of(server.pg_major).program("pg_checksums")
    paths = paths_of(backend, server)
    identity = backend.instances.account.identity()
    checked = complete([program, "--check", "-D", str(paths.data)], cwd=paths.root, **identity)
    assert checked.returncode == 0, checked.stderr
    run(backend, server)
    with connections.connect(paths_of(backend, server)) as connection:
        query = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname IN ('first', 'second') ORDER BY 1"
        assert connection.execute(query).fetchall() == [("first", later.reveal()), ("second", later.reveal())]


def test_a_verifier_that_is_not_there_or_does_not_fit_changes_nothing(stopped: tuple[Server, Path, Secret]) -> None:
    _, pg_authid, verifier = stopped
    before = pg_authid.read_bytes()
    assert not replace_verifier(pg_authid, new_verifier(), new_verifier())
    assert not replace_verifier(pg_authid, verifier, Secret(new_verifier().reveal() + "="))
    assert pg_authid.read_bytes() == before


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_page_without_its_checksum_changes_nothing(stopped: tuple[Server, Path, Secret], wrong: int) -> None:
    _, pg_authid, verifier = stopped
    content = bytearray(pg_authid.read_bytes())
    start = content.index(verifier.reveal().encode()) // PAGE_BYTES * PAGE_BYTES
    struct.pack_into("<H", content, start + 8, wrong and struct.unpack_from("<H", content, start + 8)[0] ^ wrong)
    pg_authid.write_bytes(content)
    assert not replace_verifier(pg_authid, verifier, new_verifier())
    assert pg_authid.read_bytes() == content


def test_checksums_are_those_of_postgresql(backend: LocalBackend, stopped: tuple[Server, Path, Secret]) -> None:
    data = paths_of(backend, stopped[0]).data
    compared = 0
    for file in [*data.glob("base/1/[1-9]*"), *data.glob("global/[1-9]*")]:
        if file.name.isdigit():
            content = file.read_bytes()
            for start in range(0, len(content), PAGE_BYTES):
                page = content[start : start + PAGE_BYTES]
                if page[8:10] != _PAGE_WITHOUT_CHECKSUM:  # otherwise PostgreSQL has not written it yet
                    assert checksum(page, start // PAGE_BYTES) == struct.unpack_from("<H", page, 8)[0]
                    compared += 1
    assert compared > 100


def test_a_large_file_is_not_read(stopped: tuple[Server, Path, Secret]) -> None:
    _, pg_authid, verifier = stopped
    assert has_verifier(pg_authid, verifier)
    pages = pg_authid.read_bytes()
    with pg_authid.open("ab") as file:
        file.truncate(1024 * 1024 + PAGE_BYTES)
    assert not replace_verifier(pg_authid, verifier, new_verifier())
    assert pg_authid.read_bytes().startswith(pages)
    assert not has_verifier(pg_authid, verifier)
