"""The read replica sets of a service over HTTP. Their ids also name services: GET …/services/{id} finds them."""

from litestar import Response
from litestar.params import JSONBody

from ramet.api.parameters import SetId
from ramet.api.responses import OF_SERVICE, ServicePath, accept, accept_deletion, answer, change, empty, read, router_of
from ramet.api.routes.poolers import disabled, enabled
from ramet.api.schemas.replica_sets import ReadReplicaSet, ReadReplicaSetCreate
from ramet.api.schemas.service_bodies import ResizeInput, SetEnvironmentInput
from ramet.api.schemas.shared import Success
from ramet.api.shapes import replica_set_shape
from ramet.control import replica_sets as verbs


@read("/", operation_id="getReplicaSets", summary="List read replica sets")
def list_sets(at: ServicePath) -> Response[list[ReadReplicaSet]]:
    """Every read replica set of the service, in the order of their creation."""
    return answer([replica_set_shape(each) for each in verbs.list_sets(*at)])


@accept("/", operation_id="createReplicaSet", summary="Create a read replica set")
def create_set(at: ServicePath, data: JSONBody[ReadReplicaSetCreate]) -> Response[ReadReplicaSet]:
    """Accept a set of read-only copies that follow the service. Its endpoint distributes connections over the nodes."""
    request = verbs.ReplicaSetRequest(data.name, data.nodes, data.cpu_millis, data.memory_gbs)
    return answer(replica_set_shape(verbs.create_set(*at, request)), 202)


@accept_deletion("/{replica_set_id:str}", operation_id="deleteReplicaSet", summary="Delete a read replica set")
def delete_set(at: ServicePath, replica_set_id: SetId) -> Response[None]:
    """Accept the deletion of a set. The service is not affected."""
    verbs.delete_set(*at, replica_set_id)
    return empty(202)


@accept("/{replica_set_id:str}/resize", operation_id="resizeReplicaSet", summary="Resize a read replica set")
def resize_set(at: ServicePath, replica_set_id: SetId, data: JSONBody[ResizeInput]) -> Response[Success]:
    """Accept a new size for every node of the set; the nodes restart."""
    verbs.resize_set(*at, replica_set_id, data.cpu_millis, data.memory_gbs)
    return answer(Success(f"Read replica set {replica_set_id} is being resized."), 202)


@change(
    "/{replica_set_id:str}/setEnvironment",
    operation_id="setReplicaEnvironment",
    summary="Set the environment of a read replica set",
)
def set_environment(at: ServicePath, replica_set_id: SetId, data: JSONBody[SetEnvironmentInput]) -> Response[Success]:
    """Set the environment: PROD or DEV. Memory settings that depend on it take effect when the nodes start again."""
    changed = verbs.set_environment(*at, replica_set_id, data.environment)
    return answer(Success(f"Read replica set {changed.id} is {changed.environment} now."))


@change(
    "/{replica_set_id:str}/enablePooler",
    operation_id="enableReplicaPooler",
    summary="Enable the pooler of a read replica set",
)
def enable_pooler(at: ServicePath, replica_set_id: SetId) -> Response[Success]:
    """Start PgBouncer for the set: database `tsdb` is its session pool, `tsdb_transaction` its transaction pool."""
    return enabled(at.plane, f"read replica set {replica_set_id}", verbs.enable_pooler(*at, replica_set_id))


@change(
    "/{replica_set_id:str}/disablePooler",
    operation_id="disableReplicaPooler",
    summary="Disable the pooler of a read replica set",
)
def disable_pooler(at: ServicePath, replica_set_id: SetId) -> Response[Success]:
    """Remove the pooler and close the connections of its clients. The endpoint of the server does not change."""
    return disabled(at.plane, f"read replica set {replica_set_id}", verbs.disable_pooler(*at, replica_set_id))


replicas_router = router_of(__name__, "Services", f"{OF_SERVICE}/replicaSets")
