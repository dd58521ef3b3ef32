"""Who may log in to a standby after its source has got another superuser."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import pq

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.followers import followers as followers_module
from ramet.backends.local.followers import lag
from ramet.backends.local.followers.followers import LocalFollowers
from ramet.backends.local.host import files
from ramet.backends.local.process import postgres
from ramet.backends.local.server.config_files import is_unloaded
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.servers import LocalServers
from ramet.backends.local.sql import connections, foreign
from ramet.model.upstream import Following
from tests.backends.kubernetes.servers import UPSTREAM
from tests.backends.local.hosts import boot, connect, new_server
from tests.sources import MAJORS

_ROLES = (b"CREATE ROLE x SUPERUSER LOGIN PASSWORD 'x'", b"CREATE ROLE member LOGIN PASSWORD 'x' IN ROLE x")


@contextmanager
def _open_standby(instances: Instances, *statements: bytes, pg_major: int | None = None) -> Iterator[Server]:
    """Make an open standby with superusers that were not seen yet, by statements in a database without an encoding."""
    server = new_server(instances, pg_major=pg_major or instances.installations.default.major)
    paths = instances.paths(server.service_id)
    boot(instances, server)
    with connections.connect(paths) as connection:
        connection.execute(
            "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
        )
    with connections.connect(paths, "ascii") as connection:
        for statement in statements:
            connection.execute(statement)
    instances.stop(server, 30)
    signal = paths.data / "standby.signal"
    signal.touch()
    instances.account.own(signal)
    foreign.write(paths, foreign.Foreign("ramet", "postgres"))
    upstream = msgspec.structs.replace(
        UPSTREAM, host="localhost", port=free_port(), sslmode="disable", root_certificate=None
    )
    server = replace(server, upstream=upstream)
    instances.start(server, Phase.OPEN)
    eventually(lambda: instances.await_ready(server, 0.5).ready)
    yield server
    instances.remove(server.service_id, 10)


@pytest.fixture
def standby(instances: Instances) -> Iterator[Server]:
    """An open standby with a superuser that was not seen yet."""
    with _open_standby(instances, *_ROLES) as made:
        yield made


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _log_in(server: Server, user: str) -> psycopg.Connection[Any]:
    return connect(server, "x", user=user, dbname="postgres", sslmode="prefer")


def _is_refused(server: Server, user: str) -> bool:
    try:
        _log_in(server, user).close()
    except psycopg.OperationalError as error:
        return "pg_hba.conf rejects" in str(error)
    return False


def _has_ended(session: psycopg.Connection[Any]) -> bool:
    try:
        session.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def _fail(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("fault", ["write", "reload"])
def test_a_superuser_is_kept_out_also_after_an_attempt_that_failed(
    instances: Instances, standby: Server, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    followers = LocalFollowers(instances, None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(lag, "observe", lambda *_: None)
    write, session = files.write, _log_in(standby, "x")

    def write_others(path: Path, *wanted: Any, **options: Any) -> None:
        if path.name == "pg_hba.conf":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, *wanted, **options)

    with monkeypatch.context() as patched:
        if fault == "write":
            patched.setattr(files, "write", write_others)
        else:
            patched.setattr(postgres, "reload", _fail)
        with pytest.raises(OSError, match=r"No space|Input/output"):
            followers.observe(standby)
    eventually(lambda: _has_ended(session), "its session has ended")
    assert not _is_refused(standby, "x")
    followers.observe(standby)
    for user in ("x", "member"):
        eventually(lambda user=user: _is_refused(standby, user), f"{user} is refused")  # type: ignore[misc]


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_superuser_is_kept_out_that_only_the_note_of_an_earlier_release_has(
    instances: Instances, standby: Server, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    followers = LocalFollowers(instances, None, None)  # type: ignore[arg-type]
    foreign.write(instances.paths(standby.service_id), foreign.Foreign("ramet", "postgres", ("x",)))
    monkeypatch.setattr(lag, "observe", lambda *_: None)
    if is_interrupted:
        with monkeypatch.context() as patched:
            patched.setattr(postgres, "reload", _fail)
            with pytest.raises(OSError, match="Input/output"):
                followers.observe(standby)
    followers.observe(standby)
    eventually(lambda: _is_refused(standby, "x"), "it is refused")


def test_a_superuser_is_kept_out_whose_name_is_no_utf8(instances: Instances, monkeypatch: pytest.MonkeyPatch) -> None:
    followers = LocalFollowers(instances, None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(lag, "observe", lambda *_: None)
    with _open_standby(instances, b"CREATE ROLE \"r\xff\" SUPERUSER LOGIN PASSWORD 'x'") as standby:
        paths = instances.paths(standby.service_id)
        target = f"host=localhost port={standby.port} dbname=postgres password=x user='r".encode() + b"\xff'"

        def is_refused() -> bool:
            session = pq.PGconn.connect(target)
            said = session.get_error_message()
            session.finish()
            return "pg_hba.conf rejects" in said

        assert not is_refused()
        followers.observe(standby)
        eventually(is_refused, "it is refused")
        assert foreign.read(paths) == foreign.Foreign("ramet", "postgres", ("r\udcff",))
        found = LocalServers(instances, None, None).inspect(standby)  # type: ignore[arg-type]
        assert (found.serving, found.is_closed) == (True, False)
        instances.close(standby)
        assert b'"r\xff"' in paths.hba_file.read_bytes()
        instances.open(standby)
        followers.observe(standby)
        assert is_refused()


def test_a_superuser_whose_name_is_no_line_of_a_file_is_kept_out_with_all_others_until_it_is_renamed(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = LocalFollowers(instances, None, None)  # type: ignore[arg-type]
    seen = Following(observed_at=datetime.now(UTC))
    monkeypatch.setattr(lag, "observe", lambda *_: seen)
    others = (
        b"CREATE ROLE y LOGIN PASSWORD 'x'",
        b"CREATE ROLE tsdbadmin LOGIN PASSWORD 'x'",
        b'GRANT "a\nb" TO tsdbadmin',
    )
    with _open_standby(instances, b"CREATE ROLE \"a\nb\" SUPERUSER LOGIN PASSWORD 'x'", *others) as standby:
        paths = instances.paths(standby.service_id)
        _log_in(standby, "y").close()
        found = followers.observe(standby)
        assert found is not None
        assert "superuser 'a\\nb'" in (found.problem or "")
        assert not found.receives_nothing
        for user in ("a\nb", "y", "tsdbadmin"):
            eventually(lambda user=user: _is_refused(standby, user), f"{user!r} is refused")  # type: ignore[misc]
        assert instances.stop(standby, 30)
        instances.start(standby, Phase.OPEN)
        eventually(lambda: instances.await_ready(standby, 0.5).ready)
        instances.open(standby)
        assert not LocalServers(instances, None, None).inspect(standby).is_closed  # type: ignore[arg-type]
        for user in ("a\nb", "y", "tsdbadmin"):
            assert _is_refused(standby, user)
        foreign.write(paths, foreign.Foreign("ramet", "postgres", ("other",)))
        monkeypatch.setattr(followers_module, "_SUPERUSERS", "SELECT 'other' WHERE %s <> ''")
        assert followers.observe(standby) == seen
        eventually(lambda: not _is_refused(standby, "y"), "y is admitted")
        _log_in(standby, "y").close()


def test_a_superuser_whose_name_looks_like_a_regular_expression_is_kept_out_alone(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = LocalFollowers(instances, None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(lag, "observe", lambda *_: None)
    names = ("/(", "/y", "a\rb", 'a"\\')
    made = [f"CREATE ROLE {_quoted(name)} SUPERUSER LOGIN PASSWORD 'x'".encode() for name in names]
    with _open_standby(instances, *made, b"CREATE ROLE y LOGIN PASSWORD 'x'", pg_major=max(MAJORS)) as standby:
        followers.observe(standby)
        for name in names:
            eventually(lambda name=name: _is_refused(standby, name), f"{name!r} is refused")  # type: ignore[misc]
        _log_in(standby, "y").close()


def test_a_standby_is_told_once_to_load_who_may_connect_also_after_the_clock_was_set_back(
    instances: Instances, standby: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers, paths = LocalFollowers(instances, None, None), instances.paths(standby.service_id)  # type: ignore[arg-type]
    monkeypatch.setattr(lag, "observe", lambda *_: None)
    followers.observe(standby)
    eventually(lambda: _is_refused(standby, "x"), "it is refused")
    later = time.time() + 3600
    os.utime(paths.hba_file, (later, later))

    def is_loaded() -> bool:
        with connections.connect(paths) as connection:
            return not is_unloaded(paths.hba_file, connection)

    assert not is_loaded()
    followers.observe(standby)
    eventually(is_loaded, "it is loaded")
    monkeypatch.setattr(postgres, "reload", _fail)
    followers.observe(standby)
