"""The rows of what is recovered, in one transaction with the operations that recover it."""

from datetime import datetime

import sqlalchemy as sa

from ramet.control.lookup import claim
from ramet.control.plane import Plane
from ramet.model.keys import ApiKey
from ramet.model.passwords import Secret, unusable_verifier
from ramet.model.procedures import ProcedureName
from ramet.model.project import Project
from ramet.model.service import Service
from ramet.procedures.state import RecoverState
from ramet.recovery.catalogue import ReplicaSetEntry, Secrets, ServiceEntry, service_of, set_of
from ramet.recovery.session import is_tried_again
from ramet.store import idempotency, projects, replica_sets, services, sessions
from ramet.store.keys import find_key, insert_key

_AWAITED = "It is made again when its service is recovered."


def submit_recoveries(
    plane: Plane,
    owners: list[Project],
    keys: list[ApiKey],
    entries: tuple[ServiceEntry, ...],
    secrets: Secrets,
    target: datetime | None,
) -> list[str]:
    """Record projects, keys and services, and submit an operation for each service; return the ids of the services.

    What an earlier call recorded stays; a service whose recovery failed is tried again. A service that is here already
    is left alone.
    """
    with plane.change() as tx:
        _insert_owners(tx, owners, keys)
        for entry in entries:
            service = services.get_service(tx, entry.id, lock=True)
            if service is None:
                _submit(plane, tx, _insert(plane, tx, entry, secrets), entry, target)
            elif is_tried_again(service):
                _submit(plane, tx, _try_again(tx, service, entry), entry, target)
        _insert_clients(tx, {entry.id for entry in entries}, secrets)
    return [entry.id for entry in entries]


def _insert_owners(tx: sa.Connection, owners: list[Project], keys: list[ApiKey]) -> None:
    for owner in owners:
        if projects.get_project(tx, owner.id) is None:
            projects.insert_project(tx, owner)
    for key in keys:
        if find_key(tx, key.public_key) is None:
            insert_key(tx, key)


def _insert(plane: Plane, tx: sa.Connection, entry: ServiceEntry, secrets: Secrets) -> Service:
    kept = secrets.verifiers.get(entry.id)
    service = service_of(entry, unusable_verifier() if kept is None else Secret(kept), plane.backend.host.volume_type())
    services.insert_service(tx, service)
    services.update_service(tx, service.id, recovered=True)  # from now on a deletion is one of what the archive has
    for each in entry.replica_sets:
        _insert_set(tx, each, service)
    return service


def _insert_set(tx: sa.Connection, entry: ReplicaSetEntry, service: Service) -> None:
    replica_set = set_of(entry, service)
    replica_sets.insert_set(tx, replica_set)
    replica_sets.update_set(tx, replica_set.id, pooler_port=replica_set.pooler_port, down_reason=_AWAITED)


def _try_again(tx: sa.Connection, service: Service, entry: ServiceEntry) -> Service:
    """Let the rows of a recovery that failed be as this one is to make them: its host may have what lacked then."""
    names = ("port", "pooler_port", "server_port", "sleep_after_seconds")
    columns = {name: getattr(entry, name) for name in names}
    services.update_service(tx, service.id, failed_at=None, failure=None, recovered=True, **columns)
    for each in entry.replica_sets:
        if replica_sets.get_set(tx, each.id) is None:
            _insert_set(tx, each, service)
            continue
        nodes = [list(node) for node in each.nodes]
        ports = {"port": each.port, "pooler_port": each.pooler_port, "nodes": nodes}
        replica_sets.update_set(tx, each.id, deleted_at=None, down_reason=_AWAITED, **ports)
    return service


def _submit(plane: Plane, tx: sa.Connection, service: Service, entry: ServiceEntry, target: datetime | None) -> None:
    claim(plane, tx, service, ProcedureName.RECOVER, RecoverState(target=target, paused=entry.paused))


def _insert_clients(tx: sa.Connection, recovered: set[str], secrets: Secrets) -> None:
    """Insert console sessions, and the requests that created these services."""
    for each in secrets.sessions:
        if find_key(tx, each.public_key) is not None:
            sessions.delete_session(tx, each.digest)
            sessions.insert_session(tx, each.digest, each.public_key, each.expires_at, each.secret_digest)
    for one in secrets.requests:
        if one.service_id in recovered and idempotency.find(tx, one.project_id, one.key_digest) is None:
            idempotency.insert(tx, one.project_id, one.key_digest, one.body_digest, one.service_id, one.created_at)
