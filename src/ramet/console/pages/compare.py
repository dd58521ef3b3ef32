"""What the schema of a fork has that its parent's has not, and the other way round, as both are now."""

from collections.abc import Sequence

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.control.services import get_service
from ramet.endpoints import DATABASE
from ramet.errors import Error, NotFound, WrongState
from ramet.model.service import Service
from ramet.workbench.catalog import LIMITS, MOST_DATABASES, read_with_databases
from ramet.workbench.schema import Changed, Schema, compare, read_schema
from ramet.workbench.sessions import Limits, NoDatabase, Place

_LIMITS = Limits(30, settings=LIMITS.settings)
_MOST_SHOWN = 500


@read("/services/{service_id:str}/compare", operation="createLogin", sync_to_thread=True)
def compare_page(session: SignedIn, service_id: ServiceId, database: FromQuery[str] = DATABASE) -> Response[str]:
    """Compare a database of a fork with the same one of its parent."""
    service = get_service(session.plane, session.project_id, service_id)
    parent, databases, found, left_out, problem, status_code = None, [database], [], 0, "", 200
    try:
        parent = _parent_of(session, service)
        after, own = _read(session, service, database)
        before, others = _read(session, parent, database)
        databases = list(dict.fromkeys([*own, *others]))
        if before is None and after is None:
            raise NoDatabase(service, database, databases)
        found = _whole(own, others)
        if before is not None and after is not None:
            changed, left_out = compare(before, after, _MOST_SHOWN - len(found))
            found += changed
    except NoDatabase as error:
        problem, status_code = str(error), 404
    except Error as error:
        problem = str(error)
    return page(
        "compare.html",
        session,
        service=service,
        parent=parent,
        database=database,
        databases=databases,
        found=found,
        left_out=left_out,
        problem=problem,
        status_code=status_code,
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


def _whole(own: Sequence[str], others: Sequence[str]) -> list[Changed]:
    """Return the databases that only the fork, or only its parent has; none where a list may be cut."""
    if max(len(own), len(others)) >= MOST_DATABASES:
        return []
    named = [
        *(("added", one) for one in own if one not in others),
        *(("removed", one) for one in others if one not in own),
    ]
    return [Changed(verb, "database", name, ()) for verb, name in named]


def _read(session: CurrentSession, service: Service, database: str) -> tuple[Schema | None, list[str]]:
    """Return the schema of a database, or None where a service has no such database, and the databases that it has."""
    place = Place(session.plane, service, database)
    return read_with_databases(session.context.workbench, place, read_schema, _LIMITS)
