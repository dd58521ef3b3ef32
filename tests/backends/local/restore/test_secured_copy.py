"""Secured copies: a fork of one is as safe as one that was secured itself, and holds the same rows."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import processes_in
from ramet.backends.local.restore import offline_verifier, secured_copy, snapshots
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.sql import connections, securing
from ramet.backends.local.volumes.mounts import mounted_at
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, is_password_of, new_password, scram_verifier
from ramet.model.wal_level import WalLevel
from tests.backends.local.forks import Forked, append, create, fork, paths_of, rows_of, run, snapshot
from tests.backends.local.hosts import data_root

pytestmark = pytest.mark.root  # where blocks cannot be shared, nothing is prepared

_MAPPING = (
    "CREATE EXTENSION postgres_fdw",
    "CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw",
    "CREATE USER MAPPING FOR ramet SERVER elsewhere OPTIONS (user 'u', password 'of the parent')",
)


@pytest.fixture
def known(backend: LocalBackend, parent: Server) -> Secret:
    """Return the password that the admin and another role of the parent have."""
    password = new_password()
    bootstrapped = replace(parent, verifier=scram_verifier(password))
    backend.servers.secure(bootstrapped, is_new=True, neutralize=False)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("CREATE ROLE app LOGIN")
        connection.execute(
            "UPDATE pg_authid SET rolpassword = %s WHERE rolname = 'app'", (bootstrapped.verifier.reveal(),)
        )
    return password


def prepared(backend: LocalBackend, parent: Server) -> Path:
    snapshot_id, _ = snapshot(backend, parent)
    eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 1) is None)
    return snapshots.directory_of(paths_of(backend, parent), snapshot_id)


def secured(backend: LocalBackend, forked: Forked, *, neutralize: bool = True) -> dict[str, Any]:
    return dict(backend.servers.secure(forked.server, is_new=False, neutralize=neutralize))


def is_in_advance(backend: LocalBackend, forked: Forked) -> bool:
    return secured_copy.noted(paths_of(backend, forked.server).root) is not None


def verifiers_of(backend: LocalBackend, server: Server) -> dict[str, str]:
    with connections.connect(paths_of(backend, server)) as connection:
        query = "SELECT rolname, rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL"
        return dict(connection.execute(query).fetchall())


@pytest.mark.parametrize("neutralize", [True, False])
def test_a_fork_that_was_secured_in_advance_is_as_one_that_was_not(
    backend: LocalBackend, parent: Server, known: Secret, *, neutralize: bool
) -> None:
    append(backend, parent, 1)
    snapshot_id, _ = snapshot(backend, parent)
    usual = fork(backend, parent, snapshot_id, neutralize=neutralize)
    assert not is_in_advance(backend, usual)
    eventually(lambda: backend.restore.prepare_snapshot(parent, snapshot_id, 0.5, 1) is None)
    quick = fork(backend, parent, snapshot_id, neutralize=neutralize)
    assert is_in_advance(backend, quick)
    wanted = secured(backend, usual, neutralize=neutralize)
    assert [secured(backend, quick, neutralize=neutralize) for _ in range(2)] == [wanted] * 2
    assert rows_of(backend, quick.server) == [1]
    found = verifiers_of(backend, quick.server)
    assert found["tsdbadmin"] == quick.server.verifier.reveal()
    assert set(found) == set(verifiers_of(backend, usual.server))
    assert not any(is_password_of(known, Secret(verifier)) for verifier in found.values())
    backend.servers.open(quick.server)
    assert not is_in_advance(backend, quick)


def test_a_fork_that_was_secured_in_advance_is_open_to_its_own_password_from_its_first_start_on(
    backend: LocalBackend, parent: Server, known: Secret
) -> None:
    quick = fork(backend, parent, prepared(backend, parent).name, neutralize=True).server
    assert backend.instances.is_open(quick)
    found = verifiers_of(backend, quick)
    assert found["tsdbadmin"] == quick.verifier.reveal()
    assert not any(is_password_of(known, Secret(verifier)) for verifier in found.values())
    backend.servers.secure(quick, is_new=False, neutralize=True)
    backend.servers.open(quick)
    assert backend.instances.is_open(quick)
    assert reloads_of(backend, quick) == 0


def test_a_fork_whose_verifier_cannot_be_set_in_its_files_gets_it_in_a_session(
    backend: LocalBackend, parent: Server, known: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = prepared(backend, parent)
    monkeypatch.setattr(offline_verifier, "replace_verifier", lambda *_arguments: False)
    quick = fork(backend, parent, directory.name, neutralize=True)
    assert is_in_advance(backend, quick)
    assert not backend.instances.is_open(quick.server)
    assert verifiers_of(backend, quick.server)["tsdbadmin"] != quick.server.verifier.reveal()
    secured(backend, quick)
    assert verifiers_of(backend, quick.server)["tsdbadmin"] == quick.server.verifier.reveal()
    backend.servers.open(quick.server)
    assert backend.instances.is_open(quick.server)


@pytest.mark.parametrize("is_secured", [False, True])
def test_a_fork_whose_server_was_killed_before_it_is_published_is_not_open(
    backend: LocalBackend, parent: Server, *, is_secured: bool
) -> None:
    forked = fork(backend, parent, prepared(backend, parent).name, neutralize=True)
    if is_secured:
        secured(backend, forked)
    postgres.kill(paths_of(backend, forked.server), 10)
    with pytest.raises(Unavailable):
        backend.servers.open(forked.server)
    run(backend, forked.server, first=True)
    secured(backend, forked)
    backend.servers.open(forked.server)
    assert verifiers_of(backend, forked.server)["tsdbadmin"] == forked.server.verifier.reveal()


def test_a_fork_that_other_code_has_secured_is_closed_until_it_is_secured(
    backend: LocalBackend, parent: Server, known: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = fork(backend, parent, prepared(backend, parent).name, neutralize=True)
    backend.servers.stop(forked.server)
    monkeypatch.setattr(secured_copy, "_CODE", "that of another release")
    run(backend, forked.server, first=True)
    assert not backend.instances.is_open(forked.server)
    secured(backend, forked)
    backend.servers.open(forked.server)
    assert verifiers_of(backend, forked.server)["tsdbadmin"] == forked.server.verifier.reveal()


def reloads_of(backend: LocalBackend, server: Server) -> int:
    with connections.connect(paths_of(backend, server)) as connection:
        query = "SELECT (pg_conf_load_time() > pg_postmaster_start_time() + interval '1 ms')::int"
        return int(connections.value(connection, query))


def test_what_a_secured_copy_lost_is_in_a_fork_that_is_not_neutralized(
    backend: LocalBackend, parent: Server, known: Secret
) -> None:
    with connections.connect(paths_of(backend, parent), "tsdb") as connection:
        for statement in _MAPPING:
            connection.execute(statement.encode())
    directory = prepared(backend, parent)
    kept = fork(backend, parent, directory.name, neutralize=False)
    assert not is_in_advance(backend, kept)
    secured(backend, kept, neutralize=False)
    quick = fork(backend, parent, directory.name, neutralize=True)
    assert is_in_advance(backend, quick)
    assert secured(backend, quick)["user_mappings"] == 1
    assert mappings_of(backend, kept.server) == [["user=u", "password=of the parent"]]
    assert mappings_of(backend, quick.server) == [None]


def mappings_of(backend: LocalBackend, server: Server) -> list[Any]:
    with connections.connect(paths_of(backend, server), "tsdb") as connection:
        return [row[0] for row in connection.execute("SELECT umoptions FROM pg_user_mapping").fetchall()]


@pytest.mark.parametrize("names_own_verifier", [True, False])
def test_data_that_does_not_confirm_its_record_is_secured(
    backend: LocalBackend, parent: Server, known: Secret, *, names_own_verifier: bool
) -> None:
    directory = prepared(backend, parent)
    plain, quick = (fork(backend, parent, directory.name, neutralize=wanted) for wanted in (None, True))
    record = secured_copy.noted(paths_of(backend, quick.server).root)
    assert record is not None
    if names_own_verifier:
        record = msgspec.structs.replace(record, verifier=plain.server.verifier.reveal())
    secured_copy.note(paths_of(backend, plain.server).root, record)
    assert is_password_of(known, Secret(verifiers_of(backend, plain.server)["app"]))
    secured(backend, plain)
    found = verifiers_of(backend, plain.server)
    assert found["tsdbadmin"] == plain.server.verifier.reveal()
    assert not is_password_of(known, Secret(found["app"]))


def test_a_rewind_gets_the_passwords_of_the_snapshot(backend: LocalBackend, parent: Server, known: Secret) -> None:
    directory = prepared(backend, parent)
    assert backend.pool.driver.atomic or list(directory.glob("spare-*"))
    found = verifiers_of(backend, fork(backend, parent, directory.name, neutralize=None).server)
    assert all(is_password_of(known, Secret(found[role])) for role in ("tsdbadmin", "app"))


def test_a_copy_of_other_code_is_made_again(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = prepared(backend, parent)
    first = secured_copy.noted(directory)
    monkeypatch.setattr(secured_copy, "_CODE", "that of another release")
    assert not is_in_advance(backend, fork(backend, parent, directory.name, neutralize=True))
    eventually(lambda: backend.restore.prepare_snapshot(parent, directory.name, 0.5, 1) is None)
    again = secured_copy.noted(directory)
    assert first is not None
    assert again is not None
    assert again.verifier != first.verifier
    quick = fork(backend, parent, directory.name, neutralize=True)
    assert is_in_advance(backend, quick)
    secured(backend, quick)
    assert verifiers_of(backend, quick.server)["tsdbadmin"] == quick.server.verifier.reveal()


def test_a_fork_with_another_wal_level_is_secured_itself(backend: LocalBackend, parent: Server) -> None:
    directory = prepared(backend, parent)
    logical = replace(parent, wal_level=WalLevel.LOGICAL)
    assert secured_copy.fitting(directory, parent, neutralize=True) is not None
    assert secured_copy.fitting(directory, logical, neutralize=True) is None


def test_a_copy_that_cannot_be_secured_is_left_out(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise psycopg.errors.InsufficientPrivilege("not this one")

    append(backend, parent, 1)
    with monkeypatch.context() as patched:
        patched.setattr(securing, "secure_fork", refuse)
        directory = prepared(backend, parent)
    assert "not this one" in caplog.text
    assert not processes_below(directory)
    assert {path.name.split("-")[0] for path in directory.iterdir()} == {
        "data", "base.json", "prepare.log", "prepared", "prepared.json", "secured.json", "spare",
    }  # fmt: skip
    forked = fork(backend, parent, directory.name, neutralize=True)
    assert not is_in_advance(backend, forked)
    secured(backend, forked)
    assert rows_of(backend, forked.server) == [1]


def test_snapshots_of_a_service_that_are_secured_at_once_do_not_meet(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_run, secure_fork = threading.Barrier(2), securing.secure_fork

    def wait_and_secure(*arguments: Any, **options: Any) -> tuple[dict[str, Any], bool]:
        both_run.wait(BOUND_SECONDS)
        return secure_fork(*arguments, **options)

    monkeypatch.setattr(securing, "secure_fork", wait_and_secure)
    with ThreadPoolExecutor(2) as threads:
        directories = list(threads.map(lambda _: prepared(backend, parent), range(2)))
    for directory in directories:
        record = secured_copy.noted(directory)
        assert record is not None
        assert not record.failed
        assert offline_verifier.has_verifier(directory / "secured" / record.pg_authid, Secret(record.verifier))


def processes_below(directory: Path) -> list[int]:
    return [pid for path in directory.rglob("data") for pid in processes_in(path)]


@pytest.mark.parametrize("ending", ["prepare", "discard", "destroy"])
def test_the_server_that_a_killed_process_left_is_ended(backend: LocalBackend, parent: Server, ending: str) -> None:
    append(backend, parent, 1)
    directory = prepared(backend, parent)
    workshop = directory / "securing"
    leave_server(backend, parent, directory)
    match ending:
        case "prepare":
            eventually(lambda: backend.restore.prepare_snapshot(parent, directory.name, 0.5, 1) is None)
            quick = fork(backend, parent, directory.name, neutralize=True)
            assert is_in_advance(backend, quick)
            assert rows_of(backend, quick.server) == [1]
        case "discard":
            backend.restore.discard_preparation(parent.service_id, directory.name)
        case "destroy":
            backend.servers.destroy(parent.service_id)
    assert not processes_in(workshop / "data")
    assert not workshop.exists()


def test_down_ends_the_server_that_a_killed_process_left() -> None:
    with data_root() as root:
        backend = open_backend(root)
        parent = create(backend)
        directory = prepared(backend, parent)
        leave_server(backend, parent, directory)
        backend.host.stop_all()
        assert mounted_at(backend.pool.path) is None
        backend = open_backend(root)
        backend.servers.destroy(parent.service_id)
        backend.host.stop_all()


def leave_server(backend: LocalBackend, parent: Server, directory: Path) -> None:
    """Leave what a process leaves that is killed while it secures a copy: a server at work, and no record."""
    paths = secured_copy._workshop(paths_of(backend, parent), directory)
    (directory / "secured.json").unlink()
    for place in (paths.root, paths.conf, paths.log, paths.sockets):
        backend.instances.account.make_directory(place)
    shutil.move(directory / "secured", paths.data)
    backend.instances.config.write_to(replace(parent, port=0), paths, Phase.CLOSED)
    postgres.start(paths, backend.instances.installations.of(parent.pg_major), backend.instances.account)
    eventually(lambda: postgres.is_ready(paths))
