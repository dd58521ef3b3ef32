"""The verbs over the settings of PostgreSQL that a service has of its own."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ramet.backends.interface.parameters import InForce
from ramet.control.lookup import check_changeable, claim, find_service, read_service
from ramet.control.plane import Plane
from ramet.errors import Unavailable
from ramet.model.parameters import PARAMETERS, Parameter, Value, changed, parameters_of, with_parameters
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from ramet.procedures.state import ParametersState
from ramet.store import services


@dataclass(frozen=True)
class Setting:
    """A setting, its value if the service has one of its own, and what is in force; None if the server is down."""

    parameter: Parameter
    value: str | None
    in_force: InForce | None


def list_settings(plane: Plane, project_id: str, service_id: str) -> list[Setting]:
    """Return the settings that a service can have of its own."""
    service = read_service(plane, project_id, service_id)
    own, found = parameters_of(service.settings), dict[str, InForce]()
    if status_of(service) is Status.READY:
        with suppress(Unavailable):
            found = dict(plane.backend.parameters.in_force(server_of(service), PARAMETERS))
    return [Setting(one, own.get(name), found.get(name)) for name, one in PARAMETERS.items()]


def update_settings(
    plane: Plane, project_id: str, service_id: str, changes: Mapping[str, Value | None], *, restarts: bool = False
) -> Service:
    """Accept other settings; None resets one. The service serves while they are put in force.

    What only a start puts in force waits for the next one, or, with `restarts`, for one that follows at once. A paused
    service has them when it is resumed. Raises Invalid for what PostgreSQL would not accept.
    """
    service = read_service(plane, project_id, service_id)
    check_changeable(service, "updateSettings")
    wanted = changed(parameters_of(service.settings), changes)
    plane.backend.parameters.check(replace(server_of(service), parameters=tuple(sorted(wanted.items()))))
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        check_changeable(service, "updateSettings")
        before = parameters_of(service.settings)
        after = changed(before, changes)
        if service.paused:
            services.update_service(tx, service.id, settings=with_parameters(service.settings, after))
            return find_service(plane, tx, project_id, service_id)
        if after == before and not restarts:
            return service
        state = ParametersState(before=before, after=after, restarts=restarts)
        return claim(plane, tx, service, ProcedureName.SET_PARAMETERS, state)
