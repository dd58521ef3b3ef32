"""The verbs that show what the server of a service does: its sessions, its statements, and its tables."""

from collections.abc import Sequence

from ramet.backends.interface.insight import Session, Tables, TopStatement
from ramet.control.lookup import check_writable, read_service, wrong_state
from ramet.control.plane import Plane
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of


def list_top_statements(plane: Plane, project_id: str, service_id: str, limit: int) -> Sequence[TopStatement]:
    """Return the statements of a READY service that took most time; see `backends.interface.insight`.

    A standby is refused: what counts them has to be locked, which writes to its row.
    """
    verb = "getTopStatements"
    service = _serving(plane, project_id, service_id, verb)
    check_writable(service, verb)
    return plane.backend.insight.statements(server_of(service), limit)


def list_sessions(plane: Plane, project_id: str, service_id: str, limit: int) -> Sequence[Session]:
    """Return the sessions of a READY service, those that wait or are waited for first."""
    service = _serving(plane, project_id, service_id, "getActivity")
    return plane.backend.insight.activity(server_of(service), limit)


def list_tables(plane: Plane, project_id: str, service_id: str, database: str, limit: int) -> Tables:
    """Return the largest tables in a database of a READY service, and its indexes that are not used."""
    service = _serving(plane, project_id, service_id, "getTables")
    return plane.backend.insight.tables(server_of(service), database, limit)


def _serving(plane: Plane, project_id: str, service_id: str, verb: str) -> Service:
    service = read_service(plane, project_id, service_id)
    if status_of(service) is not Status.READY:
        raise wrong_state(service, verb, (Status.READY,))
    return service
