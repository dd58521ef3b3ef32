"""Every page and form has a right of the interface, each role gets those that it has, and links lead nowhere else."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.testing import TestClient

from ramet.console.application import Console, open_console
from ramet.console.auth.cookies import SESSION
from ramet.console.pages import handlers, replica_sets, service_changes
from ramet.model.rights import RIGHTS, Role, allows
from tests.api.world import JsonObject, World, open_world
from tests.applications import application

WITHOUT_SESSION = {"/sign-in", "/link", "/enter/{token:str}"}
NOWHERE = "a000000000"


@dataclass(frozen=True)
class Page:
    """A page or a form, and the operation whose right it needs."""

    method: str
    path: str
    operation: str


@dataclass(frozen=True)
class Signed:
    """Somebody who is signed in."""

    client: TestClient[Any]
    token: str

    def open(self, page: Page, service_id: str, other: str = NOWHERE) -> httpx.Response:
        """Request a page, or send its empty form, of a service; `other` are all other ids in its path."""
        path = re.sub(r"\{(\w+)(:\w+)?\}", lambda at: service_id if at[1] == "service_id" else other, page.path)
        data = {"_token": self.token} if page.method == "POST" else None
        return self.client.request(page.method, f"/console{path}", data=data, follow_redirects=False)


def _pages() -> Iterator[Page]:
    for handler in cast("list[HTTPRouteHandler]", handlers()):
        method = "POST" if "POST" in handler.http_methods else "GET"
        for path in handler.paths:
            if path in WITHOUT_SESSION or path == "/events":
                continue
            changes = replica_sets.CHANGES if "{set_id" in path else service_changes.CHANGES
            if "{change:str}" not in path:
                yield Page(method, path, handler.opt["operation"])
            else:
                for name, change in changes.items():
                    yield Page(method, path.replace("{change:str}", name), change.operation)


def test_each_page_and_each_form_has_a_right() -> None:
    assert [page for page in _pages() if page.operation not in RIGHTS] == []
    for handler in cast("list[HTTPRouteHandler]", handlers()):
        assert handler.paths <= WITHOUT_SESSION or handler.opt["operation"] in RIGHTS, handler


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[World]:
    yield from open_world(tmp_path)


@pytest.fixture(name="console")
def _console(world: World) -> Iterator[tuple[Console, TestClient[Any]]]:
    console = open_console(world.plane, world.projects, b"k" * 32, lambda: {"paths": {}})
    with application(world.plane, world.projects, console) as app, TestClient(app) as client:
        yield console, client


@contextmanager
def _signed_in(world: World, console: tuple[Console, TestClient[Any]]) -> Iterator[Signed]:
    context, client = console[0].context, console[1]
    token = context.sessions.begin(world.tenant.key, world.clock())
    session = context.sessions.find(token, world.clock())
    assert session is not None
    client.cookies.set(SESSION, token)
    yield Signed(client, context.csrf.token_for(session))
    client.cookies.clear()


def _holders(world: World, parent: JsonObject) -> dict[Role, World]:
    others: dict[Role, World] = {role: world.with_key(role) for role in Role if role is not Role.FORKER}
    return {**others, Role.FORKER: world.forker(parent)}


def test_each_role_gets_the_pages_and_forms_that_the_table_says(
    world: World, console: tuple[Console, TestClient[Any]]
) -> None:
    shop, stranger = world.ready(), world.new_tenant("stranger")
    foreign = World(**{**vars(world), "tenant": stranger}).ready(name="foreign")
    for role, holder in _holders(world, shop).items():
        with _signed_in(holder, console) as signed:
            for page in _pages():
                if page.operation == "logout":
                    continue
                answer = signed.open(page, NOWHERE)
                assert (answer.status_code == 403) is not allows(role, page.operation), (role, page, answer.text)
                if "{service_id" in page.path:
                    refused = signed.open(page, foreign["service_id"])
                    is_part = page.path.endswith("/fork/plan")  # which says in a sentence why it has none
                    assert "foreign" not in refused.text, (role, page)
                    assert refused.status_code in (403, 404) or is_part, (role, page)
    assert [one["status"] for one in World(**{**vars(world), "tenant": stranger}).listed()] == ["READY"]


def test_no_link_of_a_page_is_refused(world: World, console: tuple[Console, TestClient[Any]]) -> None:
    shop = world.ready()
    for role, holder in _holders(world, shop).items():
        seen = holder.fork(shop) if role is Role.FORKER else shop
        world.work()
        if role is not Role.FORKER:
            world.post(world.path(shop["service_id"], "snapshots"), {"name": "mine"})
        world.work()
        with _signed_in(holder, console) as signed:
            for path in _reachable(signed, f"/console/services/{seen['service_id']}"):
                answer = signed.client.get(path, follow_redirects=False)
                assert answer.status_code in (200, 303), (role, path, answer.status_code)


def _reachable(signed: Signed, page: str) -> set[str]:
    """Return the pages that the list of services, a service, and what they link to lead to."""
    known, found = {"/console/", page}, {"/console/", page}
    for _ in range(2):
        texts = [signed.client.get(path).text for path in found if "sign-out" not in path]
        linked = {at for text in texts for at in re.findall(r'(?:href|action|hx-get)="(/console/[^"#?]*)', text)}
        found = {at for at in linked if "/static/" not in at and not at.endswith(".css")} - known
        known |= found
    return {path for path in known if not path.endswith(("/sign-out", "/revoke"))}


def test_who_may_not_fork_or_create_sees_no_button_for_that(
    world: World, console: tuple[Console, TestClient[Any]]
) -> None:
    shop = world.ready()
    with _signed_in(world.with_key(Role.VIEWER), console) as signed:
        text = signed.client.get("/console/").text + signed.client.get(f"/console/services/{shop['service_id']}").text
    for hidden in ("New service", "/fork", "/delete", "/password", "/rename", "/extend", "/protect", '/snapshot"'):
        assert hidden not in text, hidden
