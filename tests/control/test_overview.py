"""What tells open pages that something changed."""

from ramet.control import replica_sets as verbs
from ramet.control.overview import project_state
from ramet.control.replica_sets import ReplicaSetRequest
from tests.worlds import World


def test_whatever_happens_to_its_replicas_changes_the_state_of_a_service(world: World) -> None:
    service, other = world.create(), world.create("other")
    request = ReplicaSetRequest("reports", 1, 500, 2)
    seen = [project_state(world.plane, world.project.id)]
    made = verbs.create_set(world.plane, world.project.id, service.id, request)
    seen.append(project_state(world.plane, world.project.id))
    world.worker.run_until_idle()
    seen.append(project_state(world.plane, world.project.id))
    verbs.enable_pooler(world.plane, world.project.id, service.id, made.id)
    seen.append(project_state(world.plane, world.project.id))
    assert len({repr(state[service.id]) for state in seen}) == 4
    assert len({repr(state[other.id]) for state in seen}) == 1
