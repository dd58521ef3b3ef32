"""What the schema of a fork has that its parent's has not, and the other way round, as both are now."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.control.services import get_service
from ramet.endpoints import DATABASE
from ramet.errors import Error, NotFound, WrongState
from ramet.model.service import Service
from ramet.workbench.catalog import LIMITS, catalog_session, list_databases
from ramet.workbench.schema import Schema, compare, read_schema
from ramet.workbench.sessions import Limits, Place

_LIMITS = Limits(30, settings=LIMITS.settings)
_MOST_SHOWN = 500


@read("/services/{service_id:str}/compare", operation="createLogin", sync_to_thread=True)
def compare_page(session: SignedIn, service_id: ServiceId, database: FromQuery[str] = DATABASE) -> Response[str]:
    """Compare a database of a fork with the same one of its parent."""
    service = get_service(session.plane, session.project_id, service_id)
    parent, databases, found, problem = None, [database], [], ""
    try:
        parent = _parent_of(session, service)
        after, known = _read(session, service, database)
        before, _ = _read(session, parent, database)
        databases, found = list(dict.fromkeys([*known, database])), compare(before, after)
    except Error as error:
        problem = str(error)
    return page(
        "compare.html",
        session,
        service=service,
        parent=parent,
        database=database,
        databases=databases,
        found=found[:_MOST_SHOWN],
        left_out=max(0, len(found) - _MOST_SHOWN),
        problem=problem,
    )


def _parent_of(session: CurrentSession, service: Service) -> Service:
    """Return the parent of a fork. Raises WrongState where there is none that the key sees."""
    if service.origin is None:
        raise WrongState("NOT_A_FORK", f"{service.name} is not a fork, so that it has no parent", "Open a fork.")
    try:
        return get_service(session.plane, session.project_id, service.origin.service_id)
    except NotFound as error:
        raise WrongState(
            "PARENT_NOT_SEEN",
            f"{service.origin.name} is deleted, or your key does not see it",
            f"'ramet db changes {service.name}' compares it with a new fork of the parent, if you may make one.",
        ) from error


def _read(session: CurrentSession, service: Service, database: str) -> tuple[Schema, list[str]]:
    place = Place(session.plane, service, database)
    with catalog_session(session.context.workbench, place, _LIMITS) as inside:
        return read_schema(inside), list(list_databases(inside))
