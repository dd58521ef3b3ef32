"""A separate `ramet up` with real servers, and what a client knows of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
from psycopg.conninfo import make_conninfo

from harness.instance import running_instance
from harness.waiting import eventually
from tests.conformance.shapes import Error, Service, decode


@dataclass
class Ramet:
    """One project of a running Ramet over HTTP, and the passwords of its services as a client keeps them."""

    base_url: str
    project_id: str
    http: httpx.Client
    passwords: dict[str, str] = field(default_factory=dict)

    def path(self, *parts: str) -> str:
        return "/".join((f"/projects/{self.project_id}/services", *parts))

    def call(self, method: str, path: str, status: int, shape: Any = None, **options: Any) -> Any:
        """Send a request, check status and content type as rules 1 to 3 have them, and decode strictly."""
        answer = self.http.request(method, path, **options)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        if shape is None:
            assert answer.content == b""
            return None
        assert "json" in answer.headers["content-type"]
        return decode(answer.content, shape)

    def get(self, service: Service, status: int = 200) -> Any:
        return self.call("GET", self.path(service.service_id), status, Service if status == 200 else Error)

    def post(self, service: Service, verb: str, body: object = None, status: int = 202, shape: Any = Service) -> Any:
        options = {} if body is None else {"json": body}
        return self.call("POST", self.path(service.service_id, verb), status, shape, **options)

    def services(self) -> list[Service]:
        found: list[Service] = self.call("GET", self.path(), 200, list[Service])
        return found

    def create(self, **fields: object) -> Service:
        return self._accepted(self.call("POST", self.path(), 202, Service, json={"name": "shop", **fields}))

    def fork(self, parent: Service, **fields: object) -> Service:
        return self._accepted(self.post(parent, "forkService", {"fork_strategy": "NOW", **fields}))

    def _accepted(self, service: Service) -> Service:
        assert isinstance(service.initial_password, str)
        self.passwords[f"{service.endpoint.host}:{service.endpoint.port}"] = service.initial_password
        return service

    def wait(self, service: Service, *statuses: str) -> Service:
        """Poll until the service has one of these statuses, as fast as it goes."""
        found: list[Service] = []

        def seen() -> bool:
            found[:] = [self.get(service)]
            return found[0].status in statuses

        eventually(seen)
        return found[0]

    def ready(self, **fields: object) -> Service:
        return self.wait(self.create(**fields), "READY")

    def delete(self, service: Service) -> None:
        self.call("DELETE", self.path(service.service_id), 202)
        eventually(lambda: self.http.get(self.path(service.service_id)).status_code == 404)

    def address(self, service: Service, **changes: str) -> str:
        """Return connection parameters as a client puts them together: always with TLS."""
        endpoint = service.endpoint
        parameters = {
            "host": endpoint.host,
            "port": str(endpoint.port),
            "user": "tsdbadmin",
            "dbname": "tsdb",
            "password": self.passwords.get(f"{endpoint.host}:{endpoint.port}", "never returned"),
            "sslmode": "require",
            "connect_timeout": "120",
        }
        return make_conninfo("", **{**parameters, **changes})

    def connect(self, service: Service, **changes: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.address(service, **changes), autocommit=True)

    def rows(self, service: Service, query: str, **changes: str) -> list[tuple[Any, ...]]:
        with self.connect(service, **changes) as connection:
            return connection.execute(query.encode()).fetchall()


@contextmanager
def running_ramet() -> Iterator[Ramet]:
    """Run `ramet up` on a fresh data directory; at the end nothing of it is left."""
    with running_instance(None, RAMET_LOG_LEVEL="WARNING") as instance:
        known = instance.credentials
        auth = (known["public_key"], known["secret_key"])
        with httpx.Client(base_url=known["base_url"], auth=auth, timeout=250, trust_env=False) as http:
            ramet = Ramet(known["base_url"], known["project_id"], http)
            yield ramet
            for service in ramet.services():
                ramet.delete(service)
        assert instance.down() == 0
