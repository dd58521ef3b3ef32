"""Read replica sets for tests."""

from ramet.control import replica_sets as verbs
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from tests.worlds import World


def request(nodes: int = 1) -> ReplicaSetRequest:
    return ReplicaSetRequest("reports", nodes, 500, 2)


def create(world: World, service: Service, nodes: int = 1) -> ReplicaSet:
    made = verbs.create_set(world.plane, world.project.id, service.id, request(nodes))
    world.worker.run_until_idle()
    return look(world, made)


def look(world: World, replica_set: ReplicaSet) -> ReplicaSet:
    found = verbs.list_sets(world.plane, world.project.id, replica_set.service_id)
    return next(each for each in found if each.id == replica_set.id)


def sets_of(world: World, service: Service) -> list[ReplicaSet]:
    return verbs.list_sets(world.plane, world.project.id, service.id)
