"""The verb over the standbys of a service that take over when its primary fails."""

from ramet.control.lookup import check_independent, claim, find_service, read_service, wrong_state
from ramet.control.plane import Plane
from ramet.control.sleep import check_stays_awake
from ramet.errors import Invalid
from ramet.model.high_availability import NO_STANDBYS, Standbys, requested_standbys, standbys_of, with_standbys
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import READY_OR_PAUSED
from ramet.procedures.state import StandbysState
from ramet.store import services


def set_ha(
    plane: Plane, project_id: str, service_id: str, count: int | None = None, synchronous: int | None = None
) -> Service:
    """Accept other numbers of standbys; the service serves while they are made or removed.

    A paused service has them when it is resumed. Nothing happens when it has them already. Raises Invalid where the
    backend has no high availability.
    """
    service = read_service(plane, project_id, service_id)
    wanted = requested_standbys(standbys_of(service.settings), count, synchronous)
    plane.backend.replicas.check_standbys(wanted)
    if wanted == standbys_of(service.settings):
        return service
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if status_of(service) not in READY_OR_PAUSED or service.activity is not None:
            raise wrong_state(service, "setHA", READY_OR_PAUSED)
        check_independent(service, "setHA")
        check_stays_awake(service, "high availability")
        before = standbys_of(service.settings)
        if service.paused:
            services.update_service(tx, service.id, settings=with_standbys(service.settings, wanted))
            return find_service(plane, tx, project_id, service_id)
        return claim(plane, tx, service, ProcedureName.SET_HA, StandbysState(before=before, after=wanted))


def has_high_availability(plane: Plane) -> bool:
    """Tell whether services can have standbys here."""
    try:
        plane.backend.replicas.check_standbys(Standbys(1))
    except Invalid:
        return False
    return True


def checked_standbys(plane: Plane, count: int) -> Standbys:
    """Return the standbys of a new service. Raises Invalid."""
    wanted = requested_standbys(NO_STANDBYS, count, None)
    plane.backend.replicas.check_standbys(wanted)
    return wanted
