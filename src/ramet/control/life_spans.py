"""The life span of a service as its users set it, within the limits of its project."""

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.key_limits import first_span, later_span
from ramet.control.lookup import changeable_service, find_project
from ramet.control.plane import Plane
from ramet.control.quotas import check_quotas
from ramet.errors import Invalid
from ramet.model.life_span import UNLIMITED, LifeSpan, LifeTerms, granted, renewed
from ramet.model.project import ProjectLimits, limited
from ramet.model.service import Service
from ramet.store import services


def extend_service(plane: Plane, project_id: str, service_id: str, terms: LifeTerms) -> Service:
    """Change when a service expires; without terms its life span begins again. An announced end is off."""
    with plane.store.write() as tx:
        service = changeable_service(plane, tx, project_id, service_id, "extendService")
        now = plane.clock()
        span = _renewed(service, plane) if terms == UNLIMITED else granted(terms, now, service.life_span)
        if service.origin is not None:
            span = later_span(plane.caller, service, limited(find_project(tx, project_id).limits, span, now))
        services.update_service(tx, service.id, life_span=services.life_span_column(span))
        return changeable_service(plane, tx, project_id, service_id, "extendService")


def within_limits(plane: Plane, tx: sa.Connection, new: list[Service], parent: Service | None = None) -> list[Service]:
    """Return new services of one project, or forks of a parent, with the life spans that it gives them.

    Raises NotFound for a project that does not exist, and Exhausted or Invalid for what is over its limits, or over
    those of the caller's key. Ports are reserved before: so no other request adds services at the same time.
    """
    limits = find_project(tx, new[0].project_id).limits
    check_quotas(plane.caller, tx, new)
    return new if parent is None else [_limited_fork(plane, limits, one, parent) for one in new]


def _limited_fork(plane: Plane, limits: ProjectLimits, fork: Service, parent: Service) -> Service:
    sleep_after = limits.fork_sleep_after_seconds if fork.sleep_after_seconds is None else fork.sleep_after_seconds
    span = first_span(plane.caller, fork, parent, limited(limits, fork.life_span, fork.created_at))
    return replace(fork, life_span=span, sleep_after_seconds=sleep_after)


def _renewed(service: Service, plane: Plane) -> LifeSpan:
    if service.life_span is None:
        raise Invalid(
            "NO_LIFE_SPAN", f"Service {service.id} does not expire", "Send ttl_seconds, expires_at or idle_ttl_seconds."
        )
    return renewed(service.life_span, plane.clock())
