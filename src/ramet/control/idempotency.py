"""Requests that are repeated with the same Idempotency-Key get the answer of the first one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.plane import Plane
from ramet.control.ports import free_ports
from ramet.control.requests import Accepted
from ramet.errors import Invalid
from ramet.ids import new_id
from ramet.model.passwords import Secret, derived_password, is_password_of, new_password, scram_verifier
from ramet.model.service import Service, is_being_deleted, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from ramet.store import idempotency, services
from ramet.store.database import may_write


@dataclass(frozen=True)
class NewIdentity:
    """The id of a new service, its password, the verifier of that, and the ports that it may get."""

    service_id: str
    password: Secret
    verifier: Secret
    free_ports: list[int]

    def given_to(self, wanted: Service, plane: Plane, port: int) -> Service:
        """Return a wanted service with this identity, and the address that its clients connect to."""
        host = plane.backend.host.address(self.service_id, wanted.project_id, wanted.host)
        return replace(wanted, id=self.service_id, host=host, port=port, verifier=self.verifier)


def new_identity(plane: Plane, key: str | None) -> NewIdentity:
    """Return the id and the password of a new service, and free ports. Slow: not within a transaction."""
    return new_identities(plane, [key])[0]


def new_identities(plane: Plane, keys: Sequence[str | None]) -> list[NewIdentity]:
    """Return the identity of a new service for each key; all have the same free ports, two for each."""
    ports = free_ports(plane, 2 * len(keys))
    return [_new_identity(plane, key, ports) for key in keys]


def _new_identity(plane: Plane, key: str | None, ports: list[int]) -> NewIdentity:
    service_id = new_id()
    password = new_password() if key is None else derived_password(plane.root_key, service_id, key)
    return NewIdentity(service_id, password, scram_verifier(password), ports)


def earlier_answer(
    plane: Plane, project_id: str, key: str | None, request: object, *, also_gone: bool = False
) -> Accepted | None:
    """Return the earlier answer to the same key, without the password if the service is known not to accept it."""
    if key is None:
        return None
    with plane.store.read() as tx:
        found = replay(plane, tx, project_id, key, request, also_gone=also_gone)
    if found is not None:
        plane.store.settle()
    if found is None or found.service.ready_at is None or found.initial_password is None:
        return found
    return found if may_open(plane, found.service, found.initial_password) else Accepted(found.service, None)


def may_open(plane: Plane, service: Service, password: Secret) -> bool:
    """Tell whether a password opens a service, or did at first where its server cannot be asked now."""
    accepts = plane.backend.servers.has_password(server_of(service), password)
    return is_password_of(password, service.verifier) if accepts is None else accepts


def replay(
    plane: Plane, tx: sa.Connection, project_id: str, key: str | None, request: object, *, also_gone: bool = False
) -> Accepted | None:
    """Return the earlier answer to the same key; None when the key is new.

    Unless `also_gone`, None as well when the service is gone or will be: the request makes another one then.
    In a transaction that may write it waits for others that accept a request with the same key. That comes before any
    other lock: of two requests with one key, none waits for the other with what the other needs.
    """
    if key is None:
        return None
    key_digest = _digest(_scoped(plane, key))
    if may_write(tx):
        idempotency.take_turn(tx, project_id, key_digest)
    found = idempotency.find(tx, project_id, key_digest)
    if found is None:
        return None
    service = services.get_service(tx, found.service_id)
    if service is None or (_is_gone(service) and not also_gone) or plane.hides(service):
        return None
    if found.body_digest != _digest(repr(request)):
        raise Invalid(
            "IDEMPOTENCY_KEY_REUSED",
            f"This Idempotency-Key was used for service {found.service_id} with another request",
            "Send a new key, or the same request as before.",
        )
    return Accepted(service, derived_password(plane.root_key, service.id, key))


def remember(
    plane: Plane, tx: sa.Connection, project_id: str, key: str | None, request: object, service_id: str
) -> None:
    """Record which service a request with this key has made."""
    if key is not None:
        key_digest, body_digest = _digest(_scoped(plane, key)), _digest(repr(request))
        idempotency.insert(tx, project_id, key_digest, body_digest, service_id, plane.clock())


def _is_gone(service: Service) -> bool:
    """Tell whether a service will never be READY: its deletion is accepted, or its creation has failed or is undone."""
    is_undone = service.ready_at is None and status_of(service) is Status.UNSTABLE
    return bool(service.deleted_at or service.failed_at) or is_being_deleted(service) or is_undone


def _scoped(plane: Plane, key: str) -> str:
    """Return an idempotency key as the caller's own, where other keys must not learn what it made; else as it is."""
    return key if plane.only_made_by is None else f"{plane.only_made_by} {key}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
