"""A whole Ramet without a host: real SQLite, the memory backend, and a worker that runs when a test calls it."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ramet.backends.memory.backend import MemoryBackend
from ramet.control import services
from ramet.control.duties.health import Health
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.forks import fork_services
from ramet.control.placement import Placement
from ramet.control.plane import Plane, utc_now
from ramet.control.projects import Projects
from ramet.control.requests import Accepted, CreateRequest, ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.keys import ApiKey
from ramet.model.passwords import Secret
from ramet.model.project import Project
from ramet.model.service import Service
from ramet.operations.procedure import Procedure
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.store.database import Store
from ramet.store.due import UNDER_WAY
from ramet.store.tables import operation
from tests.audited import keep_audit
from tests.stores import open_store

ROOT_KEY = b"r" * 32


class Hurried(Worker):
    """Sets forward what it would wait for: where no test asks when, pauses of a backend in memory prove nothing."""

    _horizon = 0.0

    def run_until_idle(self, horizon_seconds: float = 0.3, limit_seconds: float = 10.0) -> None:
        """Run what is due within `horizon_seconds`, without the time until then."""
        self._horizon = horizon_seconds
        super().run_until_idle(horizon_seconds, limit_seconds)

    def _seconds_until_due(self) -> float | None:
        due_in = super()._seconds_until_due()
        if due_in is None or not 0 < due_in <= self._horizon:
            return due_in
        with self._store.write(durable=False) as tx:
            tx.execute(operation.update().where(UNDER_WAY).values(run_at=operation.c.run_at - due_in))
        return 0.0


@dataclass
class World:
    """The parts, wired as the application wires them."""

    store: Store
    backend: MemoryBackend
    plane: Plane
    projects: Projects
    procedures: list[Procedure]
    worker: Worker
    health: Health
    storage_guard: StorageGuard
    project: Project
    key: ApiKey
    secret: Secret

    def create(self, name: str = "shop") -> Service:
        """Return a READY service."""
        accepted = services.create_service(self.plane, self.project.id, CreateRequest(name))
        return self.settle(accepted)

    def fork(self, parent: Service, request: ForkRequest | None = None) -> Service:
        """Return a READY fork."""
        request = request or ForkRequest(ForkStrategy.NOW)
        return self.settle(fork_service(self.plane, self.project.id, parent.id, request))

    def settle(self, accepted: Accepted) -> Service:
        """Run all operations and return the service as it is then."""
        self.worker.run_until_idle()
        return services.get_service(self.plane, self.project.id, accepted.service.id)

    def leftovers(self) -> list[str]:
        """Return the volumes that no visible service owns."""
        alive = [
            service for service in services.list_services(self.plane, self.project.id) if service.failed_at is None
        ]
        sets = [each for service in alive for each in service.replica_sets if each.failed_at is None]
        owned = {service.id for service in alive} | {node.id for each in sets for node in each.nodes}
        return sorted(set(self.backend.volumes) - owned)


def look(world: World, service: Service) -> Service:
    """Return a service as it is now."""
    return services.get_service(world.plane, world.project.id, service.id)


def fork_service(
    plane: Plane, project_id: str, service_id: str, request: ForkRequest, idempotency_key: str | None = None
) -> Accepted:
    """Accept one fork."""
    return fork_services(plane, project_id, service_id, request, 1, idempotency_key)[0]


def make_world(directory: Path, backend: MemoryBackend | None = None, kind: type[Worker] = Worker) -> World:
    """Make a world with one project and one key, its store in `directory`, and a worker of some kind."""
    store = open_store(f"sqlite:///{directory}/ramet.db")
    keep_audit(store, ROOT_KEY)
    backend = backend or MemoryBackend()
    tools = Tools(store, backend, utc_now, rest=timedelta(0), preparation_rest=timedelta(0))
    procedures = all_procedures(tools)
    worker = kind(store, procedures)
    plane = Plane(store, backend, Placement("local", "localhost", range(20000, 20100)), ROOT_KEY, worker.wake, utc_now)
    projects = Projects(store)
    project = projects.create_project("demo", utc_now())
    key, secret = projects.create_key(project.id, "first", utc_now())
    guard = StorageGuard(plane)
    return World(store, backend, plane, projects, procedures, worker, Health(plane), guard, project, key, secret)
