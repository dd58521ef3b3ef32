"""The protection of a service from being deleted, reset or restored, by anybody and by its life span.

A PROD service needs its name to confirm what replaces its data or takes it away.
"""

from ramet.control.lookup import set_columns
from ramet.control.plane import Plane
from ramet.errors import Invalid, WrongState
from ramet.model.environment import Environment
from ramet.model.service import Service


def set_protection(plane: Plane, project_id: str, service_id: str, *, protected: bool) -> Service:
    """Protect a service, or stop protecting it."""
    return set_columns(plane, project_id, service_id, "setProtection", protected=protected)


def check_unprotected(service: Service, verb: str) -> None:
    """Raise WrongState for a protected service; one that could not be made may be removed all the same."""
    if service.protected and service.failed_at is None:
        raise WrongState(
            "PROTECTED",
            f"Service {service.id} ({service.name}) is protected, and {verb} would lose what it has",
            "Remove its protection first, with 'ramet service unprotect' or setProtection.",
        )


def check_confirmed(service: Service, confirm: str | None, why: str) -> None:
    """Raise Invalid for a PROD service whose name was not sent; `why` says what would happen to it."""
    if service.environment is Environment.PROD and (confirm or "").split() != service.name.split():
        raise Invalid(
            "CONFIRMATION_REQUIRED",
            f"Service {service.id} is a PROD service, and {why}",
            f"Send confirm with its name: {service.name!r}.",
        )
