"""Two Ramets in memory: a service of the first one moves to the second one, over its HTTP interface."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from litestar.testing import TestClient

from ramet.api.routes import poolers
from ramet.client import ApiError, Client
from ramet.client.elsewhere import Elsewhere, as_of_procedure
from ramet.client.http_connection import Answer
from ramet.control.protection import set_protection
from ramet.control.services import delete_service, get_service, list_services
from ramet.endpoints import BASE_PATH
from ramet.errors import Unavailable
from ramet.followers.observation import Observing
from ramet.model.passwords import is_password_of
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.moves import procedure
from ramet.moves.destination import Address, Belongings, Source
from ramet.moves.procedure import Move
from ramet.moves.verbs import MoveRequest, move_service
from ramet.operations.worker import Worker
from ramet.procedures.servers import Tools
from tests.applications import application
from tests.worlds import ROOT_KEY, World, make_world

URL = "http://localhost:9/public/api/v1"
ROWS = ["one", "two"]


@dataclass(frozen=True)
class Over:
    """Sends requests to an application in this process; obeys ramet.client.transport.Transport."""

    http: TestClient[Any]
    restarts: list[str]

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self.restarts and path.endswith(self.restarts[-1]):
            self.restarts.pop()
            return Answer(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
        answer = self.http.request(method, BASE_PATH + path, content=body, headers=dict(headers))
        return Answer(answer.status_code, answer.content, dict(answer.headers))

    def close(self) -> None:
        """Nothing was opened."""


@dataclass(frozen=True)
class Watched(Elsewhere):
    """Makes sure that the role of the copy is admitted here before its password is sent there."""

    pair: "Pair"

    def follow(self, belongings: Belongings, source: Source, mark: Mapping[str, str], key: str) -> str:
        verifier = self.pair.here.backend.volumes[self.pair.moved].copied_by
        assert verifier is not None
        assert is_password_of(source.password, verifier)
        self.pair.there.backend.followers.password = source.password
        return super().follow(belongings, source, mark, key)


@dataclass
class Pair:
    """The Ramet `here`, and the one `there`; what is written in the service is received there as long as it streams.

    `is_away`: nobody answers there. `streams`: the connection between the servers is up. `restarts`: ends of paths, the
    last one of which is answered next by a proxy, because the Ramet behind it restarts.
    """

    here: World
    there: World
    http: TestClient[Any]
    moved: str = ""
    is_away: bool = False
    streams: bool = True
    restarts: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, address: Address) -> Iterator[Elsewhere]:
        """Reach the other Ramet, as `ramet.client.elsewhere` does."""
        if self.is_away:
            raise Unavailable("SERVER_UNREACHABLE", f"No Ramet answers at {URL}")
        self.there.worker.run_until_idle()
        self.receive()
        try:
            keys = (address.project_id, address.public_key, address.secret_key)
            yield Watched(Client(address.url, *keys, transport=Over(self.http, self.restarts)), self)
        except ApiError as error:
            raise as_of_procedure(error) from error

    def receive(self) -> None:
        """Let the copy have what the service has, and let that be observed."""
        source, followers = self.here.backend.volumes.get(self.moved), self.there.backend.followers
        if source is not None and self.streams:
            followers.rows[:] = [row.value for row in source.rows]
            followers.is_down = not source.running
        Observing(self.there.plane).observe_standbys()

    def service(self) -> Service:
        """Make a service with rows here."""
        made = self.here.create("shop")
        for value in ROWS:
            self.here.backend.commit(made.id, value)
        self.moved = made.id
        return made

    def request(self, service: Service, **fields: object) -> str:
        """Request the move of a service; return its id."""
        key = {"public_key": self.there.key.public_key, "secret_key": self.there.secret}
        request = MoveRequest(**{"to_url": URL, "confirm": service.name, **key, **fields})  # type: ignore[arg-type]
        return move_service(self.here.plane, self.here.project.id, service.id, request).id

    def work(self, rewritten: Worker | None = None) -> None:
        (rewritten or self.here.worker).run_until_idle()

    def look(self) -> Service:
        return get_service(self.here.plane, self.here.project.id, self.moved)

    def copies(self) -> list[Service]:
        """Return the services there."""
        self.there.worker.run_until_idle()
        return list_services(self.there.plane, self.there.project.id)

    def places(self) -> list[str]:
        """Return where the service can be written to."""
        volume = self.here.backend.volumes.get(self.moved)
        here = ["here"] if volume is not None and volume.is_open else []
        there = [one for one in self.copies() if status_of(one) is Status.READY and one.upstream is None]
        return here + ["there" for _ in there]

    def rows_there(self) -> list[str]:
        (copy,) = self.copies()
        return self.there.backend.values(copy.id)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World, TestClient[Any]]]:
    here, there = (make_world(tmp_path_factory.mktemp(name)) for name in ("here", "there"))
    with application(there.plane, there.projects) as app, TestClient(app, raise_server_exceptions=False) as http:
        yield here, there, http
    here.store.close()
    there.store.close()


@pytest.fixture
def pair(worlds: tuple[World, World, TestClient[Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    here, there, http = worlds
    made = Pair(here, there, http)
    monkeypatch.setattr(procedure, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(procedure, "_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(poolers, "WAIT_SECONDS", 0.0)  # the worker there runs between the calls
    there.backend.followers.facts = replace(there.backend.followers.facts, bootstrap_role="ramet")
    tools = Tools(here.store, here.backend, here.plane.clock, timedelta(0), preparation_rest=timedelta(0))
    move = Move(tools, made.open, ROOT_KEY).procedure()
    here.procedures[:] = [one for one in here.procedures if one.name != move.name] + [move]
    here.worker = Worker(here.store, here.procedures)
    yield made
    for world in (here, there):
        for one in list_services(world.plane, world.project.id):
            set_protection(world.plane, world.project.id, one.id, protected=False)
            delete_service(world.plane, world.project.id, one.id)
        world.worker.run_until_idle()
