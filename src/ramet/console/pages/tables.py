"""The tables and views in a database of a service: their list, and one with its parts and its rows by page."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, ServiceId, SignedIn, read
from ramet.console.rendering import page, redirect
from ramet.control.services import get_service
from ramet.endpoints import DATABASE
from ramet.errors import Error, NotFound
from ramet.workbench.catalog import LIMITS, catalog_session, read_with_databases
from ramet.workbench.sessions import Limits, NoDatabase, Place
from ramet.workbench.statements import TEXTS, Complaint, StatementRefused
from ramet.workbench.tables import Listed, Rows, Table, describe_table, list_tables, read_rows, select_of

# As postgres_fdw sets them: a page begins after a key, which PostgreSQL must read as the value that it wrote.
_ROWS = Limits(LIMITS.seconds, settings={"datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "1"})


@read("/services/{service_id:str}/tables", operation="createLogin", sync_to_thread=True)
def tables_page(
    session: SignedIn,
    service_id: ServiceId,
    database: FromQuery[str] = DATABASE,
    search: FromQuery[str] = "",
    schema: FromQuery[str] = "",
    after: FromQuery[str] = "",
) -> Response[str]:
    """List the tables and views of a database whose names contain `search`, those after the one in `schema`."""
    service = get_service(session.plane, session.project_id, service_id)
    place = Place(session.plane, service, database)
    asked = search.replace("\0", ""), (schema.replace("\0", ""), after.replace("\0", ""))
    found: tuple[list[Listed], bool] | None = None
    databases, problem, status_code = [database], "", 200
    try:
        found, databases = read_with_databases(
            session.context.workbench, place, lambda inside: list_tables(inside, *asked)
        )
        if found is None:
            problem, status_code = str(NoDatabase(service, database, databases)), 404
    except NotFound:
        raise
    except Error as error:
        problem = str(error)
    tables, has_more = found or ([], False)
    return page(
        "tables.html",
        session,
        service=service,
        database=database,
        databases=databases,
        search=search,
        tables=tables,
        has_more=has_more,
        problem=problem,
        status_code=status_code,
    )


@read("/services/{service_id:str}/tables/one", operation="createLogin", sync_to_thread=True)
def table_page(
    session: SignedIn,
    service_id: ServiceId,
    database: FromQuery[str] = DATABASE,
    schema: FromQuery[str] = "",
    name: FromQuery[str] = "",
    after: FromQuery[str] = "",
    skip: FromQuery[int] = 0,
) -> Response[str] | Response[None]:
    """Show a table or view, and the rows after those of an earlier page."""
    service = get_service(session.plane, session.project_id, service_id)
    if not name:
        return redirect(f"/console/services/{service.id}/tables")
    place = Place(session.plane, service, database)
    with catalog_session(session.context.workbench, place) as inside:
        table = describe_table(inside, schema, name)
    rows, complaint = _rows(session, place, table, after, skip)
    return page(
        "table.html",
        session,
        service=service,
        database=database,
        table=table,
        rows=rows,
        complaint=complaint,
        select=select_of(table),
        is_first=not after and not skip,
    )


def _rows(
    session: CurrentSession, place: Place, table: Table, after: str, skip: int
) -> tuple[Rows | None, Complaint | None]:
    """Return a page of rows, or why they cannot be read."""
    try:
        with session.context.workbench.session(place, _ROWS, context=TEXTS) as inside:
            return read_rows(inside, table, after, skip), None
    except StatementRefused as error:
        return None, error.complaint
