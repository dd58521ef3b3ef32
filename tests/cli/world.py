"""A whole Ramet over the memory backend that answers HTTP on a free port of this host."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from harness.waiting import BOUND_SECONDS, eventually
from ramet.app import Runtime, wire
from ramet.backends.memory.backend import MemoryBackend
from ramet.cli.host.serving import listen
from ramet.client import Client
from ramet.configured import root_key
from ramet.control.plane import utc_now
from ramet.endpoints import base_url
from ramet.model.passwords import Secret
from ramet.model.project import Project
from ramet.settings import load_settings, make_data_dir
from tests.applications import application
from tests.audited import keep_audit
from tests.stores import open_store


@dataclass(frozen=True)
class World:
    """A server that answers, and a key to its only project."""

    runtime: Runtime
    backend: MemoryBackend
    base_url: str
    project: Project
    public_key: str
    secret: Secret

    def client(self) -> Client:
        """Return a client of the project."""
        return Client(self.base_url, self.project.id, self.public_key, self.secret)

    def environ(self) -> dict[str, str]:
        """Return the variables that lead the command line here."""
        return {
            "RAMET_BASE_URL": self.base_url,
            "RAMET_PROJECT_ID": self.project.id,
            "RAMET_PUBLIC_KEY": self.public_key,
            "RAMET_SECRET_KEY": self.secret.reveal(),
        }


@contextmanager
def open_world(directory: Path) -> Iterator[World]:
    """Serve until the end of the block; the worker runs."""
    settings = load_settings({}, data_dir=directory / "data", worker_threads=2, plaintext_endpoints="on")
    make_data_dir(settings.data_dir)
    backend = MemoryBackend()
    store = open_store(settings.store_url())
    keep_audit(store, root_key(settings))
    runtime = wire(settings, store, backend)
    project = runtime.projects.create_project("main", utc_now())
    key, secret = runtime.projects.create_key(project.id, "first", utc_now())
    runtime.worker.start()
    try:
        with _serving(runtime) as address:
            yield World(runtime, backend, address, project, key.public_key, secret)
    finally:
        runtime.worker.stop()
        runtime.close()


@contextmanager
def _serving(runtime: Runtime) -> Iterator[str]:
    listening = listen("127.0.0.1", 0)
    with application(runtime.plane, runtime.projects, runtime.console) as app:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            eventually(lambda: server.started)
            yield base_url("127.0.0.1", listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(BOUND_SECONDS)
            listening.close()
