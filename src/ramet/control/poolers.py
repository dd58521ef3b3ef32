"""Poolers of services. The port in the service's row says whether there is one; an operation then follows it."""

import sqlalchemy as sa

from ramet.control.lookup import check_writable, find_service, read_service, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import free_ports, reserve_ports
from ramet.control.sleep import check_stays_awake
from ramet.errors import WrongState
from ramet.machine.waiting import wait_until
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import READY_OR_PAUSED, OperationStatus, Status
from ramet.procedures.servers import server_of
from ramet.procedures.spec import submit
from ramet.procedures.state import PoolerState
from ramet.store import operations, services
from ramet.store.database import Store

_PROCEDURES = (ProcedureName.POOLER, ProcedureName.REPLICA_POOLER)
_LOOK_EVERY_SECONDS = 0.02


def enable_pooler(plane: Plane, project_id: str, service_id: str) -> str | None:
    """Request a pooler; return the operation that starts it, None when there is nothing to do or to wait for.

    A paused service gets its pooler when it is resumed.
    """
    plane.backend.poolers.check()
    check_database(plane, project_id, service_id)
    free = pooler_ports(plane, service_id)
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        _check_state(service, "enablePooler")
        check_stays_awake(service, "a pooler")
        if service.pooler_port is not None:
            return under_way(tx, service.id, ProcedureName.POOLER)
        services.update_service(tx, service.id, pooler_port=reserve_ports(plane, tx, free)[0])
        return None if service.paused else submit_pooler(tx, service.id, enabling=True)


def pooler_ports(plane: Plane, owner: str) -> list[int]:
    """Return free ports for the pooler of a service or set: first the one that it had before, if it could be started.

    A cluster refuses ports of nodes that others have, which cannot be seen before.
    """
    with plane.store.read() as tx:
        known = [one for each in _PROCEDURES for one in operations.of_subject(tx, owner, each)]
    started = next((one for one in known if one.state["enabling"]), None)
    failed = started is not None and started.status is OperationStatus.FAILED
    return free_ports(plane, owner=None if failed else owner)


def check_database(plane: Plane, project_id: str, service_id: str) -> None:
    """Check on the server itself that the pooled database exists; before the transaction, which others wait for."""
    service = read_service(plane, project_id, service_id)
    check_writable(service, "enablePooler")
    if status_of(service) is Status.READY:
        plane.backend.poolers.check_database(server_of(service))


def disable_pooler(plane: Plane, project_id: str, service_id: str) -> str | None:
    """Remove a pooler, which ends the sessions through it.

    Return the operation that does it, None when there is nothing to do or to wait for.
    """
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        _check_state(service, "disablePooler")
        if service.pooler_port is None:
            return under_way(tx, service.id, ProcedureName.POOLER)
        services.update_service(tx, service.id, pooler_port=None)
        return submit_pooler(tx, service.id, enabling=False)


def submit_repair(store: Store, service: Service) -> bool:
    """Submit that a pooler which was found not running is started; False when an operation is at it already."""
    with store.write() as tx:
        current = services.get_service(tx, service.id, lock=True)
        if current is None or current.pooler_port is None or current.activity is not None or current.paused:
            return False
        if operations.under_way(tx, service.id, ProcedureName.POOLER):
            return False
        submit_pooler(tx, service.id, enabling=False)
        return True


def await_end(store: Store, operation_id: str | None, timeout_seconds: float) -> bool:
    """Wait for an operation; False when `timeout_seconds` end first. Raises WrongState with the reason if it failed."""

    def has_ended() -> bool:
        with store.read() as tx:
            row = None if operation_id is None else operations.get(tx, operation_id)
        if row is not None and row.status == OperationStatus.FAILED:
            raise WrongState("POOLER_FAILED", "The pooler could not be started", row.error or "")
        return row is None or row.status == OperationStatus.SUCCEEDED

    return wait_until(has_ended, timeout_seconds, _LOOK_EVERY_SECONDS)


def under_way(tx: sa.Connection, owner: str, procedure: ProcedureName) -> str | None:
    """Return the operation that is about to make the pooler of a service or set what its row asks for, None if none."""
    found = operations.under_way_of(tx, owner, procedure)
    return found[-1].id if found else None


def submit_pooler(tx: sa.Connection, service_id: str, set_id: str | None = None, *, enabling: bool) -> str:
    """Submit that a pooler of a service, or of one of its replica sets, is started or stopped; return the operation."""
    procedure = ProcedureName.POOLER if set_id is None else ProcedureName.REPLICA_POOLER
    operation_id = submit(tx, procedure, set_id or service_id, PoolerState(enabling=enabling))
    services.add_hold(tx, service_id, operation_id)
    return operation_id


def _check_state(service: Service, verb: str) -> None:
    if status_of(service) not in READY_OR_PAUSED:
        raise wrong_state(service, verb, READY_OR_PAUSED)
