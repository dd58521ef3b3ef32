"""The protection of a service from being deleted, reset or restored, by anybody and by its life span."""

from ramet.control.lookup import changeable_service
from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.service import Service
from ramet.store import services


def set_protection(plane: Plane, project_id: str, service_id: str, *, protected: bool) -> Service:
    """Protect a service, or stop protecting it."""
    with plane.store.write() as tx:
        service = changeable_service(plane, tx, project_id, service_id, "setProtection")
        services.update_service(tx, service.id, protected=protected)
        return changeable_service(plane, tx, project_id, service_id, "setProtection")


def check_unprotected(service: Service, verb: str) -> None:
    """Raise WrongState for a protected service; one that could not be made may be removed all the same."""
    if service.protected and service.failed_at is None:
        raise WrongState(
            "PROTECTED",
            f"Service {service.id} ({service.name}) is protected, and {verb} would lose what it has",
            "Remove its protection first, with 'ramet service unprotect' or setProtection.",
        )
