"""The own log of a service, or of a node of a read replica set, as its server wrote it."""

from ramet.control.plane import Plane
from ramet.control.subjects import find_subject
from ramet.errors import Invalid
from ramet.model.logs import LogPage, LogQuery


def read_logs(plane: Plane, project_id: str, subject: str, query: LogQuery, node: int = 0) -> LogPage:
    """Return a page of a log, newest first. Raises NotFound, Invalid.

    `node` 0 is a service's server, and the first of a set; others are the further ones of a set.
    """
    _, found = find_subject(plane, project_id, subject)
    if node >= len(found):
        there = "there is one node, 0" if len(found) == 1 else f"the nodes are 0 to {len(found) - 1}"
        raise Invalid("NO_SUCH_NODE", f"node {node} does not exist: {there}", "Leave node out, or send 0.")
    return plane.backend.host.read_log(found[node], query)
