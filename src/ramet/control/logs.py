"""A service's own log, as its server wrote it."""

from ramet.control.control import Control
from ramet.errors import Invalid
from ramet.model.logs import LogPage, LogQuery
from ramet.procedures.servers import server_of


def read_logs(control: Control, project_id: str, service_id: str, query: LogQuery, node: int = 0) -> LogPage:
    """Return a page of a service's log, newest first. Raises NotFound, Invalid.

    `node` 0 is the service's server; others are high-availability replicas, which no service has here.
    """
    service = control.get_service(project_id, service_id)
    if node != 0:
        raise Invalid("NO_SUCH_NODE", f"node {node} does not exist: the service has one node.", "Leave node out.")
    return control.backend.read_log(server_of(service), query)
