"""Restores, resets and rewinds in a world of the memory backend, asked for and carried out."""

from ramet.control.requests import ForkRequest
from ramet.control.services import (
    get_service,
)
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339
from ramet.restores import verbs
from ramet.restores.verbs import ResetRequest, Restore, RestoreRequest, RewindRequest
from tests.worlds import World


def now(world: World) -> str:
    return rfc3339(world.backend.clock())


def seen(world: World, service_id: str) -> Service:
    return get_service(world.plane, world.project.id, service_id)


def restore(world: World, service: Service, request: RestoreRequest, key: str | None = None) -> Restore:
    begun = verbs.restore_service(world.plane, world.project.id, service.id, request, key)
    world.worker.run_until_idle()
    return verbs.get_restore(world.plane, world.project.id, service.id, begun.id)


def reset(world: World, service: Service, request: ResetRequest) -> Restore:
    begun = verbs.reset_service(world.plane, world.project.id, service.id, request)
    world.worker.run_until_idle()
    return verbs.get_restore(world.plane, world.project.id, service.id, begun.id)


def rewind(world: World, service: Service, name: str) -> Restore:
    begun = verbs.rewind_service(world.plane, world.project.id, service.id, RewindRequest(name))
    world.worker.run_until_idle()
    return verbs.get_restore(world.plane, world.project.id, service.id, begun.id)


def checkpoint(world: World, service: Service, name: str) -> None:
    verbs.create_checkpoint(world.plane, world.project.id, service.id, name)
    world.worker.run_until_idle()


def fork_at(world: World, service: Service, target_time: str) -> list[str]:
    made = world.fork(service, ForkRequest(ForkStrategy.PITR, target_time=target_time))
    return world.backend.values(made.id)
