"""What the server of a service does, over HTTP."""

from typing import Annotated

import msgspec
from litestar import Response
from litestar.params import QueryParameter

from ramet.api.responses import ServicePath, answer, read_in_thread, router_of
from ramet.api.schemas.insight import Activity, Session, Tables, TopStatement, TopStatements
from ramet.control import insight
from ramet.endpoints import DATABASE

_MOST, _USUAL = 200, 50

Limit = Annotated[
    int,
    QueryParameter(
        name="limit",
        ge=1,
        le=_MOST,
        description=f"The largest number to return, up to {_MOST}.",
        schema_extra={"minimum": 1, "maximum": _MOST},
    ),
]


@read_in_thread("/topStatements", operation_id="getTopStatements", summary="Get the statements that took most time")
def get_top_statements(at: ServicePath, limit: Limit = _USUAL) -> Response[TopStatements]:
    """The statements of the database tsdb that took most time in total, as pg_stat_statements counts them."""
    found = insight.list_top_statements(*at, limit)
    return answer(TopStatements(msgspec.convert(found, list[TopStatement], from_attributes=True)))


@read_in_thread("/activity", operation_id="getActivity", summary="Get the sessions of a service")
def get_activity(at: ServicePath, limit: Limit = _USUAL) -> Response[Activity]:
    """The sessions of the server, those that wait for locks and those that they wait for first."""
    found = insight.list_sessions(*at, limit)
    return answer(Activity(msgspec.convert(found, list[Session], from_attributes=True)))


Database = Annotated[
    str,
    QueryParameter(
        name="database", description="The name of a database.", schema_extra={"minLength": 1, "maxLength": 63}
    ),
]


@read_in_thread("/tables", operation_id="getTables", summary="Get the largest tables, and the unused indexes")
def get_tables(at: ServicePath, database: Database = DATABASE, limit: Limit = _USUAL) -> Response[Tables]:
    """The tables of a database with their sizes, rows and last VACUUM and ANALYZE, and the indexes that nothing uses.

    What is locked has no size.
    """
    return answer(msgspec.convert(insight.list_tables(*at, database, limit), Tables, from_attributes=True))


insight_router = router_of(__name__, "Insight")
