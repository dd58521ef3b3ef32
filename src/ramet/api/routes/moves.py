"""Moves of services to another Ramet."""

from litestar import Response
from litestar.params import JSONBody

from ramet.api.parameters import MoveId
from ramet.api.responses import ServicePath, accept, answer, read, router_of
from ramet.api.schemas import moves as schemas
from ramet.api.schemas.moves import MoveCancel, ServiceMove
from ramet.api.schemas.shared import Endpoint
from ramet.model.passwords import Secret
from ramet.moves import verbs
from ramet.moves.verbs import MoveRequest


@accept("/moves", operation_id="moveService", summary="Move a service to another Ramet")
def move_service(at: ServicePath, data: JSONBody[ServiceMove]) -> Response[schemas.Move]:
    """Accept that a service moves to a project of another Ramet, with its data, roles and passwords.

    A copy there follows the service, which serves until the copy is close behind. Then it is stopped, and the copy
    takes its place as soon as it has all of it. Here the service stays, paused, under another name. When anything
    fails before that, it serves here as before.
    """
    request = MoveRequest(
        to_url=data.to_url,
        public_key=data.public_key,
        secret_key=Secret(data.secret_key),
        authority=data.certificate_authority or "",
        name=data.name,
        confirm=data.confirm,
    )
    return answer(move_shape(verbs.move_service(*at, request)), 202)


@read("/moves", operation_id="getMoves", summary="List the moves of a service")
def list_moves(at: ServicePath) -> Response[schemas.Moves]:
    """The moves of a service, newest first, as long as the history of operations keeps them."""
    return answer(schemas.Moves([move_shape(one) for one in verbs.list_moves(*at)]))


@read("/moves/{move_id:str}", operation_id="getMove", summary="Get a move")
def get_move(at: ServicePath, move_id: MoveId) -> Response[schemas.Move]:
    """How far a move is, and where the service is afterwards. Poll this to see it end."""
    return answer(move_shape(verbs.get_move(*at, move_id)))


@accept("/moves/{move_id:str}/cancel", operation_id="cancelMove", summary="Call a move off")
def cancel_move(at: ServicePath, move_id: MoveId, data: JSONBody[MoveCancel | None] = None) -> Response[schemas.Move]:
    """Accept that a move ends: the service serves here as before, and the copy is deleted.

    From the time when the copy was asked to take the place of the service only the other Ramet decides, and this is
    refused, unless target_is_lost says that it will never do so.
    """
    is_lost = data is not None and data.target_is_lost is True
    return answer(move_shape(verbs.cancel_move(*at, move_id, target_is_lost=is_lost)), 202)


def move_shape(found: verbs.Move) -> schemas.Move:
    """Return what clients see of a move."""
    return schemas.Move(
        move_id=found.id,
        service_id=found.service_id,
        status=found.status,
        started_at=found.started_at,
        to_url=found.to_url,
        name=found.name,
        kept_as=found.kept_as,
        finished_at=found.finished_at,
        step=found.step,
        progress=found.progress,
        error=found.error,
        target_project_id=found.target_project_id,
        target_service_id=found.target_id,
        endpoint=None if found.address is None else Endpoint(*found.address),
        decided=found.is_decided,
        stopped_seconds=found.stopped_seconds,
        notes=list(found.notes),
    )


moves_router = router_of(__name__, "Services")
