"""What the schemas of several subjects share: field types, the base of request bodies, errors and endpoints."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from ramet.model.environment import Environment
from ramet.model.wal_level import WalLevel


def twin_of(name: str, go_name: str) -> Meta:
    """Return the documentation of a deprecated twin of a field, with a Go name that differs from the field's."""
    return Meta(description=f"Same as {name}.", extra_json_schema={"deprecated": True, "x-go-name": go_name})


Identifier = Annotated[str, Meta(pattern="^[a-z0-9]{10}$")]
Timestamp = Annotated[datetime, Meta(tz=True, description="RFC 3339, in UTC.")]
Name = Annotated[
    str,
    Meta(
        description="A string of 1 to 128 printable characters.", extra_json_schema={"minLength": 1, "maxLength": 128}
    ),
]
Cpu = Annotated[str | int, Meta(description="Thousandths of a core as a numeric string, such as '500', or 'shared'.")]
Memory = Annotated[str | int, Meta(description="Gigabytes as a numeric string, such as '2', or 'shared'.")]
Tag = Annotated[Environment, Meta(description="One of DEV, PROD; DEV by default.")]
Properties = Annotated[dict[str, Any], Meta(description="An object; ignored.")]
Ignored = Annotated[str, Meta(description="A string; ignored.")]


class Endpoint(Struct, frozen=True, gc=False):
    """An address that clients connect to."""

    host: str
    port: int


class ConnectionPooler(Struct, frozen=True):
    """The address of a service's pooler."""

    endpoint: Endpoint


class ErrorBody(Struct, frozen=True, omit_defaults=True):
    """Every error: a code for programs, a message for people, and details or what to do."""

    code: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]
    message: str
    details: str = ""


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body. `inherited` names fields that a fork takes from its parent and a request cannot set."""

    inherited: ClassVar[frozenset[str]] = frozenset()


WalLevelWanted = Annotated[
    WalLevel,
    Meta(description="One of replica, logical. With logical the service can be a source of logical replication."),
]
EnvironmentName = Annotated[Environment, Meta(description="One of DEV, PROD.")]


class Success(Struct, frozen=True):
    """What was done."""

    message: str


OptionalTimestamp = Annotated[datetime | None, Meta(description="RFC 3339, in UTC; null when there is none.")]
