"""The overview of a project and, for its administrators, of the host."""

from collections.abc import Sequence

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views import overview
from ramet.control.admission import describe_use
from ramet.control.metrics import own_space, usages_now
from ramet.control.services import list_services
from ramet.errors import Error

_SHOWN_WARNINGS = 25


@read("/overview", operation="getServices", sync_to_thread=True)
def overview_page(session: SignedIn, host: FromQuery[bool] = True) -> Response[str]:
    """Show what a project has, what its forks occupy of their own, and what is wrong.

    The host is not asked for what only replaces the other parts of an open page: that happens at each change.
    """
    services = list_services(session.plane, session.project_id)
    measured = own_space(session.plane, session.project_id)
    own = {one.id: measured[one.id] for one in services if one.id in measured}
    warnings = overview.warnings(services)
    return page(
        "overview.html",
        session,
        total=len(services),
        statuses=overview.by_status(services),
        ages=overview.by_age(services, own, session.plane.clock()),
        savings=overview.savings(own, usages_now(session.plane, session.project_id)),
        warnings=warnings[:_SHOWN_WARNINGS],
        more_warnings=max(0, len(warnings) - _SHOWN_WARNINGS),
        host=_host(session) if host and session.may("getKeys") else (),
    )


def _host(session: CurrentSession) -> Sequence[tuple[str, str]]:
    """Return what the host has, and how much of it its services use, as `ramet doctor` shows it."""
    plane = session.plane
    try:
        capacity = plane.backend.admission.capacity()
        return [*describe_use(plane.store, capacity, plane.placement.ports), *plane.backend.host.describe()]
    except Error as error:
        return [("host", str(error))]
