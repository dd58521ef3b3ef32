"""A whole Ramet in one process over a temporary data directory, for proofs."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import psycopg

from harness.ports import service_ports
from harness.waiting import eventually
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.control import services
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.forks import fork_services
from ramet.control.placement import Placement
from ramet.control.plane import Plane, utc_now
from ramet.control.projects import Projects
from ramet.control.requests import Accepted, CreateRequest, ForkRequest
from ramet.errors import NotFound
from ramet.model.restore_window import RestoreSettings
from ramet.model.service import Service, status_of, status_reason
from ramet.model.status import Status
from ramet.operations.schedule import Duty, Schedule
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.store.database import Store

_READY_WITHIN_SECONDS = 180.0


@dataclass(frozen=True)
class Running:
    """A READY service, and how to connect to it."""

    service: Service
    password: str
    seconds: float

    def connect(self, database: str = "tsdb") -> psycopg.Connection[tuple[object, ...]]:
        """Connect as the admin, over TCP, as a client would."""
        return psycopg.connect(
            host="localhost",
            port=self.service.port,
            user="tsdbadmin",
            dbname=database,
            password=self.password,
            connect_timeout=120,
            autocommit=True,
        )


@dataclass(frozen=True)
class Ground:
    """The parts that a proof uses."""

    store: Store
    backend: LocalBackend
    plane: Plane
    project_id: str

    @property
    def pgbench(self) -> str:
        """The program that makes load."""
        return self.backend.instances.installations.default.program("pgbench")

    def create(self, name: str, cpu_millis: str | None = None, memory_gbs: str | None = None) -> Running:
        """Return a new service, READY."""
        request = CreateRequest(name, cpu_millis=cpu_millis, memory_gbs=memory_gbs)
        return self._await(time.monotonic(), services.create_service(self.plane, self.project_id, request))

    def accepted(self, accepted: Accepted) -> Running:
        """Return a service that was asked for by another verb, READY."""
        return self._await(time.monotonic(), accepted)

    def fork(self, parent: Running, request: ForkRequest) -> Running:
        """Return a fork, READY."""
        begun = time.monotonic()
        return self._await(begun, fork_services(self.plane, self.project_id, parent.service.id, request, 1)[0])

    def resume(self, running: Running) -> Running:
        """Resume a paused service, and wait until it is READY."""
        services.start_service(self.plane, self.project_id, running.service.id)
        return self._settled(running, Status.READY)

    def pause(self, running: Running) -> Running:
        """Pause a service, and wait until it is PAUSED."""
        services.stop_service(self.plane, self.project_id, running.service.id)
        return self._settled(running, Status.PAUSED)

    def delete(self, running: Running) -> None:
        """Delete a service and wait until it is gone."""
        services.delete_service(self.plane, self.project_id, running.service.id)
        with contextlib.suppress(NotFound):
            eventually(lambda: self.look(running) is None, "the end of the service", seconds=_READY_WITHIN_SECONDS)

    def _settled(self, running: Running, status: Status) -> Running:
        eventually(lambda: status_of(self.look(running)) is status, status.value, seconds=_READY_WITHIN_SECONDS)
        return replace(running, service=self.look(running))

    def look(self, running: Running) -> Service:
        """Return a service as it is now."""
        return services.get_service(self.plane, self.project_id, running.service.id)

    def _await(self, begun: float, accepted: Accepted) -> Running:
        def is_decided() -> bool:
            return status_of(self._find(accepted)) in (Status.READY, Status.UNSTABLE)

        eventually(is_decided, "READY or UNSTABLE", seconds=_READY_WITHIN_SECONDS)
        service = self._find(accepted)
        if status_of(service) is not Status.READY or accepted.initial_password is None:
            raise AssertionError(f"service {service.id} is {status_of(service)}: {status_reason(service)}")
        return Running(service, accepted.initial_password.reveal(), time.monotonic() - begun)

    def _find(self, accepted: Accepted) -> Service:
        return services.get_service(self.plane, self.project_id, accepted.service.id)


@contextlib.contextmanager
def open_ground(directory: Path | None, snapshot_seconds: float, archive_url: str = "") -> Iterator[Ground]:
    """Open a Ramet in a fresh directory below `directory`; at the end all of it is removed."""
    root = Path(tempfile.mkdtemp(prefix="ramet-prove-", dir=directory))
    root.chmod(0o711)
    backend = open_backend(root, has_limits=False, archive_url=archive_url)
    store = Store.open(f"sqlite:///{root}/ramet.db")
    worker = Worker(store, all_procedures(Tools(store, backend, utc_now, rest=timedelta(0))))
    placement = Placement("local", "localhost", service_ports(100), plaintext=True)
    settings = RestoreSettings(snapshot_interval_seconds=int(snapshot_seconds), snapshot_wal_bytes=64 * 1024**2)
    plane = Plane(store, backend, placement, b"prove" * 8, worker.wake, restore=settings)
    schedule = Schedule(store, [Duty("snapshots", 1.0, ScheduledSnapshots(plane).take_due)])
    worker.start()
    schedule.start()
    try:
        yield Ground(store, backend, plane, Projects(store).create_project("prove", utc_now()).id)
    finally:
        schedule.stop()
        worker.stop()
        _remove(backend, root)
        store.close()
        shutil.rmtree(root)


def _remove(backend: LocalBackend, root: Path) -> None:
    layout = backend.instances.layout
    for path in list(layout.services.iterdir()) if layout.services.is_dir() else []:
        backend.servers.destroy(path.name)
    shutil.rmtree(layout.sockets, ignore_errors=True)
    backend.host.stop_all()
