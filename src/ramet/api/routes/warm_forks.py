"""The pool of warm forks that a service keeps."""

from litestar import Response
from litestar.params import JSONBody

from ramet.api.responses import ServicePath, answer, empty, read, remove, router_of, update
from ramet.api.schemas import warm_forks as schemas
from ramet.api.schemas.warm_forks import WarmForksInput
from ramet.model.warm_forks import DEFAULT_AGE_SECONDS
from ramet.warm_forks import verbs


@read("/warmForks", operation_id="getWarmForks", summary="Get the warm forks of a service")
def get_warm_forks(at: ServicePath) -> Response[schemas.WarmForks]:
    """How many forks of its newest state the service keeps ready, and how many there are."""
    return answer(_shape(verbs.get_warm_forks(*at)))


@update("/warmForks", operation_id="setWarmForks", summary="Keep warm forks")
def set_warm_forks(at: ServicePath, data: JSONBody[WarmForksInput]) -> Response[schemas.WarmForks]:
    """Keep forks of the newest state of the service running and unclaimed, as DEV, neutralized and of its size.

    They are made one at a time while nothing else is being started, and give way to other servers when the host is
    full. They are listed nowhere and count against no limit of the project until one is given to a request that it
    fits. A service without this setting keeps some by itself while it is forked often; with a size of 0 it never does.
    """
    age = DEFAULT_AGE_SECONDS if data.max_age_seconds is None else data.max_age_seconds
    return answer(_shape(verbs.keep_warm_forks(*at, data.size, age)))


@remove("/warmForks", operation_id="deleteWarmForks", summary="Keep no warm forks of one's own choice")
def delete_warm_forks(at: ServicePath) -> Response[None]:
    """Keep forks ready only while the service is forked often. Others that nobody has claimed are deleted."""
    verbs.drop_warm_forks(*at)
    return empty(204)


def _shape(found: verbs.WarmForks) -> schemas.WarmForks:
    pool = found.pool
    return schemas.WarmForks(
        size=pool.size,
        max_age_seconds=pool.max_age_seconds if pool.size else None,
        automatic=pool.automatic,
        ready=found.ready,
        being_made=found.being_made,
        oldest_state=found.oldest_as_of,
    )


warm_forks_router = router_of(__name__, "Services")
