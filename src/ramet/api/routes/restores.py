"""Restores in place: restore, reset, checkpoint and rewind."""

from dataclasses import asdict

import msgspec
from litestar import Response
from litestar.params import JSONBody

from ramet.api.parameters import IdempotencyKey, RestoreId, checked_key
from ramet.api.responses import ServicePath, accept, answer, read, router_of
from ramet.api.routes.restore import snapshot_shape
from ramet.api.schemas import restores as schemas
from ramet.api.schemas.restore import Snapshot
from ramet.api.schemas.restores import CheckpointCreate, ServiceReset, ServiceRestore, ServiceRewind
from ramet.model.fork import ForkStrategy
from ramet.restores import verbs
from ramet.restores.verbs import ResetRequest, RestoreRequest, RewindRequest


@accept("/restores", operation_id="restoreService", summary="Restore a service in place")
def restore_service(
    at: ServicePath, data: JSONBody[ServiceRestore], idempotency_key: IdempotencyKey = None
) -> Response[schemas.Restore]:
    """Accept that a service gets the data of a time, of a snapshot, or of another service, at its own endpoint.

    The data is prepared beside the service, which serves until it is exchanged in a short stop. Id, endpoint and
    passwords stay. What is replaced remains as a paused service, unless keep_previous is false.
    """
    request = RestoreRequest(
        target_time=data.target_time,
        snapshot=data.snapshot,
        from_service_id=data.from_service_id,
        keeps=data.keep_previous is not False,
        confirm=data.confirm,
    )
    return answer(restore_shape(verbs.restore_service(*at, request, checked_key(idempotency_key))), 202)


@accept("/reset", operation_id="resetService", summary="Reset a fork to a state of its parent")
def reset_service(
    at: ServicePath, data: JSONBody[ServiceReset | None] = None, idempotency_key: IdempotencyKey = None
) -> Response[schemas.Restore]:
    """Accept that a fork becomes a fresh copy of its parent, with the same id, endpoint and passwords."""
    wanted = data or ServiceReset()
    request = ResetRequest(
        strategy=wanted.fork_strategy or ForkStrategy.NOW,
        target_time=wanted.target_time,
        keeps=wanted.keep_previous is True,
        confirm=wanted.confirm,
    )
    return answer(restore_shape(verbs.reset_service(*at, request, checked_key(idempotency_key))), 202)


@accept("/checkpoints", operation_id="createCheckpoint", summary="Make a checkpoint")
def create_checkpoint(at: ServicePath, data: JSONBody[CheckpointCreate]) -> Response[Snapshot]:
    """Accept a manual snapshot that the service can be rewound to by its name."""
    return answer(snapshot_shape(verbs.create_checkpoint(*at, data.name)), 202)


@accept("/rewind", operation_id="rewindService", summary="Rewind a service to a checkpoint")
def rewind_service(
    at: ServicePath, data: JSONBody[ServiceRewind], idempotency_key: IdempotencyKey = None
) -> Response[schemas.Restore]:
    """Accept that a service returns to the newest checkpoint with a name, as often as one likes."""
    request = RewindRequest(data.name, keeps=data.keep_previous is True, confirm=data.confirm)
    return answer(restore_shape(verbs.rewind_service(*at, request, checked_key(idempotency_key))), 202)


@read("/restores", operation_id="getRestores", summary="List the restores of a service")
def list_restores(at: ServicePath) -> Response[schemas.Restores]:
    """Restores in place, resets and rewinds, newest first, as long as the history of operations keeps them."""
    return answer(schemas.Restores([restore_shape(one) for one in verbs.list_restores(*at)]))


@read("/restores/{restore_id:str}", operation_id="getRestore", summary="Get a restore")
def get_restore(at: ServicePath, restore_id: RestoreId) -> Response[schemas.Restore]:
    """How far a restore in place is. Poll this to see it end."""
    return answer(restore_shape(verbs.get_restore(*at, restore_id)))


def restore_shape(found: verbs.Restore) -> schemas.Restore:
    """Return what clients see of a restore in place."""
    known = {**asdict(found), "restore_id": found.id, "source_service_id": found.source_id}
    return msgspec.convert(known, schemas.Restore)


restores_router = router_of(__name__, "Restore")
