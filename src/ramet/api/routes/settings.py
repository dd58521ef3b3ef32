"""Settings of PostgreSQL that a service has of its own, over HTTP."""

from litestar import Response
from litestar.params import JSONBody

from ramet.api.responses import ServicePath, accept, answer, read_in_thread, router_of
from ramet.api.schemas.services import Service
from ramet.api.schemas.settings import Setting, Settings, SettingsUpdate
from ramet.api.shapes import service_shape
from ramet.control import parameters


@read_in_thread("/settings", operation_id="getSettings", summary="Get the settings of PostgreSQL of a service")
def get_settings(at: ServicePath) -> Response[Settings]:
    """The settings that a service can have of its own, with what it has, what is in force, and what each accepts."""
    return answer(Settings([_shape(one) for one in parameters.list_settings(*at)]))


@accept("/settings", operation_id="updateSettings", summary="Change settings of PostgreSQL of a service")
def update_settings(at: ServicePath, data: JSONBody[SettingsUpdate]) -> Response[Service]:
    """Accept values of settings; null resets one. PostgreSQL reads them first, and what it refuses changes nothing.

    They are put in force while the service serves; those that need a restart wait for one, which `restart` asks for. A
    paused service has them when it is resumed. Forks inherit them.
    """
    changed = parameters.update_settings(*at, data.settings, restarts=data.restart is True)
    return answer(service_shape(changed), 202)


def _shape(one: parameters.Setting) -> Setting:
    known, found = one.parameter, one.in_force
    return Setting(
        name=known.name,
        value=one.value,
        in_force=None if found is None else found.value,
        pending_restart=found is not None and found.is_pending,
        needs_restart=known.needs_restart,
        accepts=known.range_text,
        description=None if found is None else found.description,
    )


settings_router = router_of(__name__, "Insight")
