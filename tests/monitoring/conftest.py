"""One running application over the backend in memory, with two projects, for all tests of a file."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from ramet.app import Runtime, wire
from ramet.backends.memory.backend import MemoryBackend
from ramet.control import services
from ramet.control.duties.sampling import Sampling
from ramet.control.plane import utc_now
from ramet.control.replica_sets import ReplicaSetRequest, create_set
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.keys import ApiKey
from ramet.model.metrics import SERIES, key_of
from ramet.settings import load_settings, make_data_dir
from ramet.store import services as rows
from tests.stores import open_store
from tests.worlds import fork_service

TOKEN = "operator-token-of-this-test"
_LABELS = {"ramet_connections": {"state": "idle"}, "ramet_transactions_total": {"outcome": "commit"}}


@dataclass(frozen=True)
class Monitored:
    """The runtime, a client of its HTTP, and in each of two projects a service and a key."""

    runtime: Runtime
    client: TestClient[Any]
    names: tuple[str, str]
    keys: tuple[ApiKey, ApiKey]
    secrets: tuple[str, str]

    def scrape(self, **headers: str) -> httpx.Response:
        return self.client.get("/metrics", headers=headers)

    def everything(self) -> str:
        answer = self.scrape(authorization=f"Bearer {TOKEN}")
        assert answer.status_code == 200, answer.text
        return answer.text


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    folder = tmp_path_factory.mktemp("monitored")
    with _runtime(folder) as runtime, TestClient(runtime.http(), raise_server_exceptions=False) as client:
        client.get("/livez")
        yield _populated(runtime, client)


def _runtime(folder: Path) -> "closing[Runtime]":
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    settings = load_settings({}, data_dir=folder / "data", metrics_token_file=str(token))
    make_data_dir(settings.data_dir)
    return closing(wire(settings, open_store(settings.store_url()), MemoryBackend()))


def _populated(runtime: Runtime, client: TestClient[Any]) -> Monitored:
    names = ("shop-of-mine", "shop-of-others")
    keys: list[ApiKey] = []
    secrets: list[str] = []
    for name in names:
        project = runtime.projects.create_project(name, utc_now())
        key, secret = runtime.projects.create_key(project.id, "test", utc_now())
        made = services.create_service(runtime.plane, project.id, CreateRequest(name)).service
        runtime.worker.run_until_idle()
        keys.append(key)
        secrets.append(secret.reveal())
        fork_service(runtime.plane, project.id, made.id, ForkRequest(ForkStrategy.NOW))
        create_set(runtime.plane, project.id, made.id, ReplicaSetRequest("readers", 1, "500", "2"))
        runtime.worker.run_until_idle()
        past = utc_now() - timedelta(hours=1)
        with runtime.store.write() as tx:
            rows.update_service(tx, made.id, drilled_at=past, archive_base_at=past)
    _measure(runtime)
    return Monitored(runtime, client, names, (keys[0], keys[1]), (secrets[0], secrets[1]))


def _measure(runtime: Runtime) -> None:
    backend = runtime.backend
    assert isinstance(backend, MemoryBackend)
    for volume in backend.volumes.values():
        volume.measured = {key_of(name, **_LABELS.get(name, {})): 7.0 for name in SERIES}
    sampling = Sampling(runtime.plane)
    for _ in backend.volumes:  # each call takes a sample at least
        sampling.sample()
