"""A whole world behind the HTTP interface: real store, real verbs, real procedures, and the backend in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from litestar.testing import TestClient

from ramet.api.schemas.shared import Body
from ramet.backends.memory.backend import MemoryBackend
from ramet.control.placement import Placement
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.endpoints import BASE_PATH
from ramet.model.keys import ApiKey, KeyLimits
from ramet.model.passwords import Secret
from ramet.model.project import Project
from ramet.model.rights import Role
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.store.database import Store
from tests.applications import application
from tests.audited import check_audited, keep_audit
from tests.stores import open_store

JsonObject = dict[str, Any]


def bodies(kind: type[Body] = Body) -> list[type[Body]]:
    """Return the structs of all request bodies, also of those that extend another one."""
    return [found for each in kind.__subclasses__() for found in (each, *bodies(each))]


class Clock:
    """The time, with a lead that a test can set."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass(frozen=True)
class Tenant:
    """A project with a key to it."""

    project: Project
    key: ApiKey
    secret: Secret

    @property
    def credentials(self) -> tuple[str, str]:
        return self.key.public_key, self.secret.reveal()


@dataclass(frozen=True)
class World:
    """One tenant's view of the interface, and the means to make things happen behind it."""

    store: Store
    backend: MemoryBackend
    plane: Plane
    projects: Projects
    worker: Worker
    client: TestClient[Any]
    clock: Clock
    tenant: Tenant

    def new_tenant(self, name: str) -> Tenant:
        return new_tenant(self.projects, name)

    def with_key(self, role: Role, **given: Any) -> "World":
        """Return this world as it is for the holder of a new key with a role."""
        key, secret = self.projects.create_key(self.tenant.project.id, role, self.clock(), role=role, **given)
        return replace(self, tenant=Tenant(self.tenant.project, key, secret))

    def forker(self, *parents: JsonObject, **limits: Any) -> "World":
        """Return this world as it is for a forker of these parents."""
        named = tuple(one["service_id"] for one in parents)
        return self.with_key(Role.FORKER, limits=KeyLimits(parents=named, **limits))

    def advance(self, duration: timedelta) -> None:
        self.clock.ahead += duration

    @property
    def services_path(self) -> str:
        return f"{BASE_PATH}/projects/{self.tenant.project.id}/services"

    def path(self, service_id: str, verb: str = "") -> str:
        return f"{self.services_path}/{service_id}" + (f"/{verb}" if verb else "")

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path, auth=self.tenant.credentials)

    def post(self, path: str, body: object = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return check_audited(self.store, self.client.post(path, auth=self.tenant.credentials, **options))

    def delete(self, path: str) -> httpx.Response:
        return check_audited(self.store, self.client.delete(path, auth=self.tenant.credentials))

    def create(self, **fields: Any) -> JsonObject:
        answer = self.post(self.services_path, {"name": "shop", **fields})
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    def fork(self, parent: JsonObject, **fields: Any) -> JsonObject:
        answer = self.post(self.path(parent["service_id"], "forkService"), {"fork_strategy": "NOW", **fields})
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    def look(self, service: JsonObject) -> JsonObject:
        return dict(self.get(self.path(service["service_id"])).json())

    def listed(self) -> list[JsonObject]:
        return list(self.get(self.services_path).json())

    def work(self) -> None:
        self.worker.run_until_idle()

    def ready(self, **fields: Any) -> JsonObject:
        service = self.create(**fields)
        self.work()
        return self.look(service)


def open_world(folder: Path, url: str | None = None, **settings: Any) -> Iterator[World]:
    """Make a world whose store is in `folder`, or at `url`; a generator, for a fixture. `settings` are the plane's."""
    clock = Clock()
    store = open_store(url or f"sqlite:///{folder}/ramet.db")
    keep_audit(store, b"k" * 32, clock)
    backend = MemoryBackend(clock=clock)
    placement = Placement("local", "localhost", range(15432, 15832))
    plane = Plane(store, backend, placement, b"k" * 32, clock=clock, **settings)
    projects = Projects(store, clock)
    tools = Tools(store, backend, clock, rest=timedelta(0), preparation_rest=timedelta(0))
    worker = Worker(store, all_procedures(tools))
    with application(plane, projects) as app, TestClient(app, raise_server_exceptions=False) as client:
        yield World(store, backend, plane, projects, worker, client, clock, new_tenant(projects, "main"))
    store.close()


def new_tenant(projects: Projects, name: str) -> Tenant:
    """Make a project with a key to it."""
    project = projects.create_project(name, datetime.now(UTC))
    key, secret = projects.create_key(project.id, f"key of {name}", datetime.now(UTC))
    return Tenant(project, key, secret)
