"""Sessions of the command line are in the service, whatever the environment says."""

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import Endpoint
from ramet.cli.commands.roles import NewRole, make_role
from ramet.cli.connection import connection_string
from ramet.client import Client, ForkStrategy
from ramet.endpoints import DATABASE
from ramet.kits import changes
from ramet.kits.changes import _comment, _schema_of
from ramet.model.passwords import new_password
from ramet.model.status import Status
from tests.cli.terminal import Terminal
from tests.cli.world import World
from tests.sources import MAJORS, OWNER, PASSWORD, Source, open_source


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with open_source(max(MAJORS)) as made:
        # Without an encoding, in which texts are bytes for psycopg unless one is chosen.
        made.run(f"CREATE DATABASE {DATABASE} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        yield made


def test_a_schema_is_read_where_the_service_is(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.run(r"DO $$ BEGIN EXECUTE E'CREATE TABLE kept (name text DEFAULT ''J\374rgen'')'; END $$", DATABASE)
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.9")
    login = SimpleNamespace(password=PASSWORD.reveal(), role=OWNER)
    client = cast(Client, SimpleNamespace(create_login=lambda *_, **__: login))
    endpoint = Endpoint("localhost", source.own_port)
    awake = {"status": Status.READY, "metadata": SimpleNamespace(sleeping=False)}
    service = cast(Service, SimpleNamespace(service_id="x", name="shop", endpoint=endpoint, **awake))
    schema = _schema_of(client, service)
    assert "schema public" in schema
    assert r"J\xfcrgen" in "\n".join(schema)


def test_a_comment_says_in_utc_until_when_there_is_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = SimpleNamespace(expires_at=datetime(2026, 7, 1, 12, 30, tzinfo=UTC))
    fork = SimpleNamespace(name="preview", metadata=metadata, endpoint=Endpoint("localhost", 5432))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        comment = _comment(cast(Service, fork), "shop", [])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert ", until 2026-07-01 12:30 UTC.\n" in comment


def made_forks(world: World) -> list[str]:
    with world.client() as client:
        return [one.name for one in client.list_services() if one.forked_from is not None]


@pytest.fixture
def fork(world: World) -> Iterator[str]:
    with world.client() as client:
        parent = client.wait_ready(client.create_service("web").service_id)
        made = client.wait_ready(client.fork_service(parent.service_id, ForkStrategy.NOW, name="web-42").service_id)
        yield made.name
        client.delete_service(made.service_id)
        client.wait_deleted(made.service_id)


def test_a_comment_says_that_a_limit_allows_no_fork_to_compare_with(
    terminal: Terminal, world: World, fork: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_schema_of", lambda *_: ["schema public"])
    world.runtime.projects.change_limits(world.project.id, {"max_forks": len(made_forks(world))})
    try:
        plain = terminal.ramet("db", "changes", fork)
        assert (plain.code, "would have" in plain.err) == (3, True)
        comment = terminal.ramet("db", "changes", fork, "--markdown")
    finally:
        world.runtime.projects.change_limits(world.project.id, {"max_forks": None})
    assert comment.code == 0
    assert "**`web-42`** is a fork of `web`" in comment.out
    assert "Its schema was not compared with that of `web`" in comment.out
    assert "would have" in comment.err


def test_a_comparison_that_is_asked_to_end_deletes_its_fork(
    terminal: Terminal, world: World, fork: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked_to_end(_: Client, service: Service) -> list[str]:
        if service.name != fork:
            signal.raise_signal(signal.SIGTERM)
        return []

    before = signal.signal(signal.SIGTERM, lambda *_: None)  # else the test would end without the fix
    monkeypatch.setattr(changes, "_schema_of", asked_to_end)
    try:
        assert terminal.ramet("db", "changes", fork).code == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    eventually(lambda: made_forks(world) == [fork])


def test_a_role_is_created_where_the_service_is(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = connection_string(Endpoint("localhost", source.own_port), PASSWORD.reveal(), OWNER)
    with monkeypatch.context() as environ:
        environ.setenv("PGHOSTADDR", "127.0.0.9")
        make_role(uri, NewRole("reporting", new_password()))
    with source.connect() as connection:
        assert connection.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'reporting'").fetchone() == (True,)
