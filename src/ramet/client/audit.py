"""The audit of a project."""

from __future__ import annotations

from ramet.api import schemas
from ramet.client.connection import Connection, query_of


class Audit(Connection):
    """Who changed what."""

    def list_audit(self, **query: str) -> schemas.audit.AuditEntries:
        """Return a page of the audit, newest first.

        `query` may contain limit, cursor, actor, verb, subject, outcome, request_id, since and until.
        """
        return self.call("GET", self.project_path("audit") + query_of(query), schemas.audit.AuditEntries)
