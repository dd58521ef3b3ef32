"""The verbs over moves: move a service to another Ramet, call that off, and how a move went."""

from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit, urlunsplit

import msgspec
import sqlalchemy as sa

from ramet.control.lookup import check_not_restored, find_service, unused_name, wrong_state
from ramet.control.plane import Plane
from ramet.control.protection import check_confirmed
from ramet.endpoints import BASE_PATH, is_loopback
from ramet.errors import Invalid, NotFound, WrongState
from ramet.machine import sealing
from ramet.model.names import check_name
from ramet.model.passwords import Secret, new_password
from ramet.model.pem import is_pem
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.moves.procedure import GIVEN_UP, KEPT, PURPOSE
from ramet.moves.refusals import check_can_move
from ramet.procedures.servers import server_of
from ramet.procedures.spec import submit
from ramet.procedures.state import MoveState
from ramet.store import operations, replica_sets, services

_LONGEST_URL, _LONGEST_KEY, _LONGEST_AUTHORITY = 2000, 200, 64 * 1024


@dataclass(frozen=True)
class MoveRequest:
    """Where a service is to go, with the key of an admin there. `name` is what it is called there; None: as here.

    `authority` verifies the certificate of that Ramet, as PEM. `confirm` is the service's name, which a PROD service
    needs.
    """

    to_url: str
    public_key: str
    secret_key: Secret = field(repr=False)
    authority: str = ""
    name: str | None = None
    confirm: str | None = None


@dataclass(frozen=True)
class Move:
    """A move, and how far it is. `step` is the title of a step; `target_id` and `address` are of the service there."""

    id: str
    service_id: str
    status: OperationStatus
    step: str | None
    progress: str
    error: str | None
    started_at: datetime
    finished_at: datetime | None
    to_url: str
    target_project_id: str | None
    target_id: str | None
    address: tuple[str, int] | None
    name: str
    kept_as: str
    is_decided: bool
    stopped_seconds: float | None
    notes: tuple[str, ...]


def move_service(plane: Plane, project_id: str, service_id: str, request: MoveRequest) -> Move:
    """Accept that a service moves to another Ramet. It serves until the copy there is close behind."""
    to_url, name = _checked_url(request.to_url), None if request.name is None else check_name(request.name)
    _check_key(request)
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        _check(tx, service, request.confirm)
        sets = replica_sets.live_sets(tx, service.id)
    check_can_move(service, sets, plane.backend.replication.slots(server_of(service)).slots)
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        _check(tx, service, request.confirm)
        state = MoveState(
            to_url=to_url,
            public_key=request.public_key,
            secret_key=sealing.seal(plane.root_key, PURPOSE, service.id, request.secret_key),
            authority=request.authority,
            password=sealing.seal(plane.root_key, PURPOSE, service.id, new_password()),
            name=name or service.name,
            is_named=name is not None,
            kept_as=unused_name(plane, tx, service, KEPT),
        )
        operation_id = submit(tx, ProcedureName.MOVE, service.id, state)
        accepted = operations.get(tx, operation_id)
    if accepted is None:
        raise AssertionError("BUG: the operation was just submitted")
    return _shown(accepted)


def cancel_move(plane: Plane, project_id: str, service_id: str, move_id: str, *, target_is_lost: bool = False) -> Move:
    """Call a move off: the service serves here as before. Raises WrongState when only the other Ramet can decide that.

    With `target_is_lost` an admin says that the other Ramet will never open the service.
    """
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        found = _of_service(tx, service, move_id)
        if found.status is not OperationStatus.RUNNING and not (target_is_lost and found.finished_at is None):
            raise WrongState("MOVE_OVER", f"Move {move_id} is {found.status}, and cannot be called off")
        if found.is_decided and not target_is_lost:
            raise WrongState(
                "MOVE_DECIDED",
                f"Move {move_id} waits for the Ramet at {found.to_url}, which may have opened the service already",
                "Wait until it answers. Only if it is lost for good, call the move off with target_is_lost"
                " (ramet service moves SERVICE --cancel --target-is-lost).",
            )
        if target_is_lost:
            services.update_service(tx, service.id, settings={**service.settings, GIVEN_UP: move_id})
        operations.cancel(tx, move_id)
        return _of_service(tx, service, move_id)


def list_moves(plane: Plane, project_id: str, service_id: str) -> list[Move]:
    """Return the moves of a service, newest first, as long as its history keeps them."""
    with plane.store.read() as tx:
        return _moves_of(tx, find_service(plane, tx, project_id, service_id))


def get_move(plane: Plane, project_id: str, service_id: str, move_id: str) -> Move:
    """Return one move of a service. Raises NotFound."""
    with plane.store.read() as tx:
        return _of_service(tx, find_service(plane, tx, project_id, service_id), move_id)


def _check(tx: sa.Connection, service: Service, confirm: str | None) -> None:
    """Raise when a service must not be moved now."""
    if service.activity is not None or status_of(service) is not Status.READY:
        raise wrong_state(service, "move", (Status.READY,))
    if operations.under_way(tx, service.id, ProcedureName.MOVE):
        raise WrongState(
            "MOVE_UNDER_WAY",
            f"Service {service.id} is being moved already",
            "See 'ramet service moves', or call that move off.",
        )
    check_not_restored(tx, service)  # the copy there would have the data that is replaced here
    check_confirmed(service, confirm, "a move stops it here")


def _check_key(request: MoveRequest) -> None:
    """Raise Invalid for what can be no key, and no certificate."""
    for field_name, text in (("public_key", request.public_key), ("secret_key", request.secret_key.reveal())):
        if not (text.isascii() and text.isprintable() and 1 <= len(text) <= _LONGEST_KEY):
            raise Invalid("INVALID_KEY", f"{field_name} must have 1 to {_LONGEST_KEY} printable ASCII characters")
    authority = request.authority
    if authority and not (is_pem(authority) and len(authority) <= _LONGEST_AUTHORITY):
        raise Invalid(
            "INVALID_AUTHORITY", "certificate_authority is no certificate in PEM", "'ramet ca' prints it there."
        )


def _checked_url(url: str) -> str:
    """Return the address of the interface of another Ramet. Raises Invalid."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or len(url) > _LONGEST_URL or not url.isprintable() or parts.query or parts.fragment:
        raise _wrong_url(f"it must be the URL of a Ramet server (got {url[:100]!r})")
    if parts.username is not None:
        raise _wrong_url("it contains a user, and a key belongs into fields of its own")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise _wrong_url(
            "it begins with http://, so that the key and the password of the copy could be read on their way",
            "Let that Ramet serve HTTPS (RAMET_TLS_CERT=auto), or reach it through an SSH tunnel to localhost.",
        )
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith(BASE_PATH) else path + BASE_PATH, "", ""))


def _wrong_url(problem: str, remedy: str = "It looks like https://ramet.example:8080.") -> Invalid:
    return Invalid("INVALID_URL", f"to_url cannot be used: {problem}", remedy)


def _moves_of(tx: sa.Connection, service: Service) -> list[Move]:
    return [_shown(one) for one in operations.of_subject(tx, service.id, ProcedureName.MOVE)]


def _of_service(tx: sa.Connection, service: Service, move_id: str) -> Move:
    found = next((one for one in _moves_of(tx, service) if one.id == move_id), None)
    if found is None:
        raise NotFound("MOVE_NOT_FOUND", f"service {service.id} has no move {move_id[:64]!r}")
    return found


def _shown(found: operations.Operation) -> Move:
    state = msgspec.convert(found.state, MoveState)
    is_over = found.finished_at is not None
    return Move(
        id=found.id,
        service_id=found.subject,
        status=found.status,
        step=None if is_over else SPECS[found.procedure].steps.get(found.step),
        progress=found.progress,
        error=found.error,
        started_at=found.created_at,
        finished_at=found.finished_at,
        to_url=state.to_url,
        target_project_id=state.to_project_id or None,
        target_id=state.target_id,
        address=state.address,
        name=state.name,
        kept_as=state.kept_as,
        is_decided=state.is_decided,
        stopped_seconds=state.stopped_seconds,
        notes=state.notes,
    )
