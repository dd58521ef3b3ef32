"""The console over the backend in memory, whose services have the database of one real server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from litestar.testing import TestClient

from ramet.console.application import Console, open_console
from ramet.console.auth.cookies import SESSION
from ramet.workbench.relay import Relay
from ramet.workbench.sessions import Workbench
from tests.api.world import JsonObject, World
from tests.applications import application
from tests.audited import check_audited

PARENT = "parent"
"""A service with this host has the database of this name in the place of tsdb, and a database `dropped`."""
KEY = re.compile(r'name="key" value="([^"]+)"')


@dataclass(frozen=True)
class Server:
    """A server that lets everybody in, with the two roles that logins stand for."""

    url: str

    def run(self, *statements: str, role: str = "") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as session:
            for statement in ([f"SET ROLE {role}"] if role else []) + list(statements):
                cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def connect(self, **given: Any) -> psycopg.Connection:
        """Stand for psycopg.connect: the same way to the server, without TLS and passwords."""
        writes = "role=tsdbadmin" in given["options"]
        kept = {
            name: given[name] for name in ("hostaddr", "port", "options", "autocommit", "context", "client_encoding")
        }
        name = given["dbname"]
        database = {"tsdb": PARENT, "dropped": PARENT}.get(name, name) if given["host"] == PARENT else name
        return psycopg.connect(user="tsdbadmin" if writes else "reader", dbname=database, sslmode="disable", **kept)


def prepare(url: str) -> Server:
    """Make the roles and the database of tenants in an empty server."""
    server = Server(url.replace("+psycopg", ""))
    server.run(
        "CREATE ROLE tsdbadmin LOGIN CREATEDB CREATEROLE",
        "CREATE ROLE reader LOGIN",
        "GRANT pg_read_all_data, pg_monitor TO reader",
        "CREATE DATABASE tsdb OWNER tsdbadmin",
    )
    return Server(server.url.rsplit("/", 1)[0] + "/tsdb")


@dataclass(frozen=True)
class Browser:
    """Somebody who is signed in, without scripts."""

    world: World
    client: TestClient[Any]
    token: str

    def see(self, path: str, status: int = 200, **query: str) -> str:
        answer = self.client.get(path, params=query or None, follow_redirects=False)
        assert answer.status_code == status, answer.text
        return answer.text

    def sql(self, service: JsonObject, statement: str, **fields: str) -> httpx.Response:
        """Send the form of the editor as it was just opened."""
        path = f"/console/services/{service['service_id']}/sql"
        given = {"_token": self.token, "key": "form", "action": "run", "sql": statement, **fields}
        answer = self.client.post(path, data=given, follow_redirects=False)
        return check_audited(self.world.store, answer) if "write" in fields else answer


@dataclass(frozen=True)
class SqlWorld:
    """A world, its console, and the server behind its services."""

    world: World
    console: Console
    client: TestClient[Any]
    server: Server

    @contextmanager
    def signed_in(self, holder: World | None = None) -> Iterator[Browser]:
        world, context = holder or self.world, self.console.context
        token = context.sessions.begin(world.tenant.key, world.clock())
        session = context.sessions.find(token, world.clock())
        assert session is not None
        self.client.cookies.set(SESSION, token)
        yield Browser(world, self.client, context.csrf.token_for(session))
        self.client.cookies.clear()


def open_sql_world(world: World, server: Server) -> Iterator[SqlWorld]:
    console = open_console(world.plane, world.projects, b"k" * 32, lambda: {"paths": {}})
    object.__setattr__(console.context, "workbench", Workbench(connect=server.connect))
    port = int(urlsplit(server.url).port or 0)
    with (
        pytest.MonkeyPatch.context() as patch,
        application(world.plane, world.projects, console) as app,
        TestClient(app) as client,
    ):
        patch.setattr("ramet.workbench.sessions.Relay", lambda _, __, *limits: Relay("127.0.0.1", port, *limits))
        yield SqlWorld(world, console, client, server)
