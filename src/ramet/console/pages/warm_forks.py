"""The change of how many forks of a service are kept ready."""

from ramet.console.pages.change_form import Change, Values
from ramet.console.views.forms import whole_number
from ramet.control.plane import Plane
from ramet.model.service import Service
from ramet.model.warm_forks import DEFAULT_AGE_SECONDS, pool_of
from ramet.warm_forks.verbs import drop_warm_forks, keep_warm_forks

_DIGITS = 5


def warm_values(service: Service) -> Values:
    """Return the values that the form begins with."""
    pool = pool_of(service)
    size, age = ("", DEFAULT_AGE_SECONDS) if pool is None else (pool.size, pool.max_age_seconds)
    return {"warm_size": str(size), "warm_age": str(age)}


def _keep(plane: Plane, project_id: str, service_id: str, size: int | None, max_age_seconds: int) -> None:
    if size is None:
        drop_warm_forks(plane, project_id, service_id)
    else:
        keep_warm_forks(plane, project_id, service_id, size, max_age_seconds)


def _size(values: Values) -> int | None:
    return whole_number(values, "warm_size", _DIGITS) if values.get("warm_size") else None


WARM_FORKS: Change[Service] = Change(
    "setWarmForks",
    "Keep warm forks of",
    "Save",
    "Forks of the newest state run in advance, so that a fork is READY at once. They take memory as any fork does, and"
    " give way to other servers when the host is full.",
    _keep,
    lambda values: (_size(values), whole_number(values, "warm_age", _DIGITS)),
    fields=("warm_forks",),
    done="The warm forks have been saved.",
)
