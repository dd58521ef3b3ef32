"""The operations that services have gone through."""

from ramet.api.schemas import operations as schemas
from ramet.client.connection import Connection, query_of


class Operations(Connection):
    """The history of operations."""

    def list_operations(self, service_id: str | None = None, **query: str) -> schemas.Operations:
        """Return the operations on a service, or on all services of the project, newest first.

        `query` may contain limit, cursor and all. Without all=true, work that Ramet started by itself is listed only
        when it failed.
        """
        path = self.project_path("operations") if service_id is None else self.path(service_id, "operations")
        return self.call("GET", path + query_of(query), schemas.Operations)
