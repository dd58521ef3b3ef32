"""The schemas of the audit."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from ramet.api.schemas.operations import Actor
from ramet.api.schemas.shared import Timestamp


class AuditEntry(Struct, frozen=True, omit_defaults=True):
    """A change, or a request for one: who made it, from where, and how it ended. It contains no secrets."""

    sequence: Annotated[int, Meta(description="Its number in the audit of the installation.")]
    at: Timestamp
    actor: Actor
    via: Annotated[str, Meta(description="One of api, console, host, duty.")]
    verb: Annotated[str, Meta(description="The operation of this interface, the command on the host, or a procedure.")]
    outcome: Annotated[
        str,
        Meta(
            description="One of accepted, refused, failed, unchanged; or started, for what takes effect outside of the"
            " store and is followed by another entry with the same request_id."
        ),
    ]
    link: Annotated[str, Meta(description="The digest that chains the entry to the one before.")]
    address: Annotated[str | None, Meta(description="The address of the client.")] = None
    subject: Annotated[str | None, Meta(description="The service, snapshot or read replica set that it is about.")] = (
        None
    )
    fields: Annotated[dict[str, Any] | None, Meta(description="The fields of the request; secrets are ***.")] = None
    code: Annotated[str | None, Meta(description="The code of the error.")] = None
    operation_id: Annotated[str | None, Meta(description="The operation that was submitted.")] = None
    request_id: Annotated[str | None, Meta(description="The X-Request-Id header of the response.")] = None


class AuditEntries(Struct, frozen=True, omit_defaults=True):
    """A page of the audit, newest first; the last page has no last_cursor."""

    entries: list[AuditEntry]
    last_cursor: str | None = None
