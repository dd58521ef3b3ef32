"""The HTTP interface: shapes, credentials, errors, and one module a resource. The verbs are control's."""
