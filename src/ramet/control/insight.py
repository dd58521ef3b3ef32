"""The verbs that show what the server of a service does: its sessions, its statements, and its tables."""

from collections.abc import Sequence

from ramet.backends.interface.insight import Session, Tables, TopStatement
from ramet.backends.interface.values import Server
from ramet.control.lookup import read_service, wrong_state
from ramet.control.plane import Plane
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of


def list_top_statements(plane: Plane, project_id: str, service_id: str, limit: int) -> Sequence[TopStatement]:
    """Return the statements of a READY service that took most time; see `backends.interface.insight`."""
    server = _serving(plane, project_id, service_id, "getTopStatements")
    return plane.backend.insight.statements(server, limit)


def list_sessions(plane: Plane, project_id: str, service_id: str, limit: int) -> Sequence[Session]:
    """Return the sessions of a READY service, those that wait or are waited for first."""
    server = _serving(plane, project_id, service_id, "getActivity")
    return plane.backend.insight.activity(server, limit)


def list_tables(plane: Plane, project_id: str, service_id: str, database: str, limit: int) -> Tables:
    """Return the largest tables in a database of a READY service, and its indexes that are not used."""
    server = _serving(plane, project_id, service_id, "getTables")
    return plane.backend.insight.tables(server, database, limit)


def _serving(plane: Plane, project_id: str, service_id: str, verb: str) -> Server:
    service = read_service(plane, project_id, service_id)
    if status_of(service) is not Status.READY:
        raise wrong_state(service, verb, (Status.READY,))
    return server_of(service)
