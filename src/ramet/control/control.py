"""The verbs of the control plane over services. Each is one transaction; the work that follows is an operation.

Projects and keys are in `ramet.control.projects`; what happens on the host is the procedures' business.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice

import sqlalchemy as sa

from ramet.backends.base import Backend
from ramet.control.endpoints import Placement
from ramet.control.replica_views import all_with_sets, set_as_service, with_sets
from ramet.control.requests import Accepted, CreateRequest
from ramet.errors import Exhausted, Invalid, NotFound, WrongState
from ramet.ids import is_id, new_id
from ramet.model.credentials import Secret, derived_password, new_password, scram_verifier
from ramet.model.resources import Size, parse_size
from ramet.model.service import (
    Origin,
    Service,
    ServiceType,
    Status,
    check_name,
    is_visible,
    status_of,
)
from ramet.model.window import RestoreSettings
from ramet.operations.procedure import request_cancel, submit
from ramet.procedures.registry import FIRST_STEPS
from ramet.procedures.servers import server_of
from ramet.store import idempotency, projects, services
from ramet.store.database import Store

_DEFAULTS = RestoreSettings()


def utc_now() -> datetime:
    """Return the time, aware and in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class NewIdentity:
    """What a new service is known and opened by."""

    service_id: str
    password: Secret
    verifier: Secret


class Control:
    """The verbs over services. Safe to share between threads.

    Modules beside this one add verbs as functions over its `store`, `backend`, `clock`, `find` and `submit`.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        placement: Placement,
        root_key: bytes,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], datetime] = utc_now,
        restore: RestoreSettings = _DEFAULTS,
    ) -> None:
        """`root_key` is the secret that passwords of repeated requests derive from; `wake` is called after submits.

        `restore` holds for services that have no such settings of their own.
        """
        self.store = store
        self.backend = backend
        self._placement = placement
        self._root_key = root_key
        self.wake = wake
        self.clock = clock
        self.restore = restore

    def list_services(self, project_id: str) -> list[Service]:
        """Return the visible services of a project, oldest first, in two queries."""
        now = self.clock()
        with self.store.read() as tx:
            return all_with_sets(tx, project_id, services.list_services(tx, project_id, now), now)

    def get_service(self, project_id: str, service_id: str) -> Service:
        """Return a service of the project, or a read replica set of it as one. Raises NotFound."""
        with self.store.read() as tx:
            found = self._look(tx, project_id, service_id, lock=False)
            if found is None and is_id(service_id):
                found = set_as_service(tx, project_id, service_id, self.clock())
        if found is None:
            raise _no_service(service_id)
        return found

    def create_service(self, project_id: str, request: CreateRequest, idempotency_key: str | None = None) -> Accepted:
        """Accept a new, empty service."""
        earlier = self.earlier_answer(project_id, idempotency_key, request)
        if earlier is not None:
            return earlier
        self._check_create(request)
        size = parse_size(request.cpu_millis, request.memory_gbs, Size(), self.backend.host_size())
        pg_major = self.backend.default_pg_major(request.service_type)
        self.backend.check_service_type(request.service_type, pg_major)
        if request.with_vectors:
            self.backend.check_service_type(ServiceType.VECTOR, pg_major)
        has_tls = self.backend.has_tls(pg_major)
        self._placement.check_tls(pg_major, has_tls=has_tls)
        self.backend.check_room(None)
        new = self.new_identity(idempotency_key)
        with self.store.write() as tx:
            replayed = self.replay(tx, project_id, idempotency_key, request)
            if replayed is not None:
                return replayed
            self._check_project(tx, project_id)
            service = Service(
                id=new.service_id,
                project_id=project_id,
                name=request.name,
                region_code=self._placement.region_code,
                service_type=request.service_type,
                environment=request.environment,
                size=size,
                volume_type=self.backend.volume_type(),
                host=self._placement.host_of(has_tls=has_tls),
                port=self.reserve_port(tx),
                pg_major=pg_major,
                created_at=self.clock(),
                verifier=new.verifier,
            )
            accepted = self.accept(tx, service, "create", new.password)
            self.remember(tx, project_id, idempotency_key, request, service.id)
        self.wake()
        return accepted

    def start_service(self, project_id: str, service_id: str) -> Service:
        """Accept the resumption of a paused service."""
        return self._change(project_id, service_id, "start", (Status.PAUSED,))

    def stop_service(self, project_id: str, service_id: str) -> Service:
        """Accept the pause of a service; a restart that the observer has begun is called off first."""
        return self._change(project_id, service_id, "stop", (Status.READY, Status.UNSTABLE), interrupts="restart")

    def delete_service(self, project_id: str, service_id: str) -> Service:
        """Accept the deletion of a service in whatever state; a create, fork or restart is called off first."""
        with self.store.write() as tx:
            service = self.find(tx, project_id, service_id, lock=True)
            activity = service.activity
            if activity is not None and activity.procedure == "delete":
                return service
            if activity is not None and activity.procedure in ("create", "fork", "restart"):
                request_cancel(tx, activity.operation_id)
            interrupted = None if activity is None else activity.operation_id
            changed = self.submit(tx, service, "delete", {"interrupted": interrupted})
        self.wake()
        return changed

    def _change(
        self, project_id: str, service_id: str, procedure: str, allowed: tuple[Status, ...], interrupts: str = ""
    ) -> Service:
        with self.store.write() as tx:
            service = self.find(tx, project_id, service_id, lock=True)
            activity, state = service.activity, dict[str, object]()
            if activity is not None and activity.procedure == interrupts:
                request_cancel(tx, activity.operation_id)
                state["interrupted"], activity = activity.operation_id, None
            if status_of(service) not in allowed or activity is not None or service.failed_at is not None:
                raise wrong_state(service, procedure, allowed)
            changed = self.submit(tx, service, procedure, state)
        self.wake()
        return changed

    def accept(
        self,
        tx: sa.Connection,
        service: Service,
        procedure: str,
        password: Secret,
        state: dict[str, object] | None = None,
    ) -> Accepted:
        services.insert_service(tx, service)
        accepted = self.submit(tx, service, procedure, state or {"snapshot_id": new_id()})
        return Accepted(accepted, password)

    def submit(self, tx: sa.Connection, service: Service, procedure: str, state: dict[str, object]) -> Service:
        """Submit an operation that claims the service, and return the service as it is then."""
        operation_id = submit(tx, procedure, FIRST_STEPS[procedure], service.id, state)
        services.update_service(tx, service.id, operation_id=operation_id)
        return self.find(tx, service.project_id, service.id)

    def find(self, tx: sa.Connection, project_id: str, service_id: str, *, lock: bool = False) -> Service:
        """Return a service of the project that clients may see. Raises NotFound."""
        found = self._look(tx, project_id, service_id, lock=lock)
        if found is None:
            replica_set = set_as_service(tx, project_id, service_id, self.clock()) if is_id(service_id) else None
            raise _no_service(service_id, None if replica_set is None else replica_set.origin)
        return found

    def _look(self, tx: sa.Connection, project_id: str, service_id: str, *, lock: bool) -> Service | None:
        service = services.get_service(tx, service_id, lock=lock) if is_id(service_id) else None
        if service is None or service.project_id != project_id or not is_visible(service, self.clock()):
            return None
        return with_sets(tx, service, self.clock())

    def _check_project(self, tx: sa.Connection, project_id: str) -> None:
        if projects.get_project(tx, project_id) is None:
            raise NotFound("PROJECT_NOT_FOUND", "no project with that id exists", f"project_id {project_id[:64]!r}")

    def _check_create(self, request: CreateRequest) -> None:
        check_name(request.name)
        check_region(request.region_code, self._placement.region_code)
        if request.replica_count:
            raise Invalid(
                "HA_NOT_AVAILABLE",
                f"replica_count {request.replica_count} needs high availability, which one host cannot give",
                "Send replica_count 0; the Kubernetes backend has high availability.",
            )

    def reserve_port(self, tx: sa.Connection, owner: str | None = None) -> int:
        """Return a port that nothing uses, for a row of the same transaction. Raises Exhausted.

        With the id of an owner it is the same one again, as long as nothing else took it.
        """
        return self.reserve_ports(tx, 1, owner)[0]

    def reserve_ports(self, tx: sa.Connection, count: int, owner: str | None = None) -> list[int]:
        """Return so many ports that nothing uses, for rows of the same transaction. Raises Exhausted."""
        used, ports = services.used_ports(tx), self._placement.ports
        # From anywhere on: who still knows a deleted service does not at once meet another one at its port, and two
        # installations on one host do not race for the same port.
        start = secrets.randbelow(len(ports)) if owner is None else int(owner, 36) % len(ports)
        turned = chain(ports[start:], ports[:start])
        found = list(islice((p for p in turned if p not in used and self.backend.port_is_free(p)), count))
        if len(found) == count:
            return found
        raise Exhausted(
            "NO_FREE_PORT",
            f"All ports from {ports.start} to {ports.stop - 1} are in use",
            "Delete a service, or widen RAMET_PORT_RANGE.",
        )

    def endpoint_host(self, pg_major: int) -> str:
        """Return the host that services of a PostgreSQL version announce."""
        return self._placement.host_of(has_tls=self.backend.has_tls(pg_major))

    def new_identity(self, idempotency_key: str | None) -> NewIdentity:
        """Return the id and the password of a new service. Slow on purpose: not within a transaction."""
        service_id = new_id()
        password = (
            new_password() if idempotency_key is None else derived_password(self._root_key, service_id, idempotency_key)
        )
        return NewIdentity(service_id, password, scram_verifier(password))

    def earlier_answer(self, project_id: str, key: str | None, request: object) -> Accepted | None:
        """Return the answer given before to the same key, with the password only while it opens the service."""
        if key is None:
            return None
        with self.store.read() as tx:
            found = self.replay(tx, project_id, key, request)
        if found is None or found.service.ready_at is None or found.initial_password is None:
            return found
        opens = self.backend.has_password(server_of(found.service), found.initial_password)
        return found if opens else Accepted(found.service, None)

    def replay(self, tx: sa.Connection, project_id: str, key: str | None, request: object) -> Accepted | None:
        """Return the answer given before to the same key; None when the key is new or its service is gone."""
        if key is None:
            return None
        found = idempotency.find(tx, project_id, _digest(key))
        if found is None:
            return None
        service = services.get_service(tx, found.service_id)
        if service is None or not is_visible(service, self.clock()):
            return None
        if found.body_digest != _digest(repr(request)):
            raise Invalid(
                "IDEMPOTENCY_KEY_REUSED",
                f"This Idempotency-Key was used for service {found.service_id} with another request",
                "Send a new key, or the same request as before.",
            )
        return Accepted(service, derived_password(self._root_key, service.id, key))

    def remember(self, tx: sa.Connection, project_id: str, key: str | None, request: object, service_id: str) -> None:
        if key is not None:
            idempotency.insert(tx, project_id, _digest(key), _digest(repr(request)), service_id, self.clock())


def check_region(wanted: str | None, region_code: str) -> None:
    """Raise Invalid for a region other than the only one."""
    if wanted not in (None, region_code):
        raise Invalid(
            "INVALID_REGION",
            f"region_code {(wanted or '')[:64]!r} is not served here; the only region is {region_code!r}",
            "Leave region_code out, or send that one.",
        )


def operation_id_of(service: Service) -> str:
    """Return the operation of a service that was just accepted."""
    if service.activity is None:
        raise AssertionError("BUG: an accepted service has an operation")
    return service.activity.operation_id


def _no_service(service_id: str, parent: Origin | None = None) -> NotFound:
    told = f"service_id {service_id[:64]!r}"
    if parent is not None:
        told += f" is a read replica set: see /services/{parent.service_id}/replicaSets/{service_id}"
    return NotFound("SERVICE_NOT_FOUND", "no service with that id exists", told)


def wrong_state(service: Service, verb: str, allowed: tuple[Status, ...]) -> WrongState:
    """Return the error for a verb that the present status does not allow."""
    status, wanted = status_of(service), " or ".join(allowed)
    wrong = f"Service {service.id} is {status}, and {verb} needs it to be {wanted}"
    if status is Status.DELETING:
        remedy = "It is being deleted: use another service."
    elif service.failed_at is not None:
        remedy = "It could not be made: delete it, and make another one."
    elif service.activity is not None:
        if status in allowed:
            wrong = f"Service {service.id} is {status} while its {service.activity.procedure} is under way"
        remedy = "Wait until its operation is finished."
    else:
        reachable = [one for one in allowed if one is not Status.UNSTABLE]
        remedy = f"Bring it to {' or '.join(reachable)} first."
    return WrongState("INVALID_STATE", wrong, remedy)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
