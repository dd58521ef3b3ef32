"""What the server of a service does: top statements, sessions and who blocks whom, tables and unused indexes."""

from collections.abc import Callable
from typing import TypeVar

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.control import insight, parameters
from ramet.control.services import get_service
from ramet.endpoints import DATABASE
from ramet.errors import Error

_SHOWN = 25
_Found = TypeVar("_Found")


@read("/services/{service_id:str}/insight", operation="getActivity", sync_to_thread=True)
def insight_page(session: SignedIn, service_id: ServiceId, database: FromQuery[str] = DATABASE) -> Response[str]:
    """Show what a server does now, and what fills a database; each part says why it cannot be shown."""
    service = get_service(session.plane, session.project_id, service_id)
    at = (session.plane, session.project_id, service.id)
    own = _asked(lambda: [one for one in parameters.list_settings(*at) if one.value is not None])
    return page(
        "insight.html",
        session,
        service=service,
        database=database,
        sessions=_asked(lambda: insight.list_sessions(*at, _SHOWN)),
        statements=_asked(lambda: insight.list_top_statements(*at, _SHOWN)),
        tables=_asked(lambda: insight.list_tables(*at, database, _SHOWN)),
        settings=own,
    )


def _asked(ask: Callable[[], _Found]) -> tuple[_Found | None, str]:
    """Return an answer, or the reason why there is none."""
    try:
        return ask(), ""
    except Error as error:
        if error.code == "SERVICE_NOT_FOUND":
            raise
        return None, str(error)
