"""The schemas of the off-host archive of a service."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.api.schemas.shared import Body, Identifier, OptionalTimestamp, Timestamp
from ramet.model.environment import Environment

Lag = Annotated[
    float | None, Meta(description="Seconds of commits that the loss of the host would take; null if unknown.")
]
ArchiveUrl = Annotated[str | None, Meta(description="Where the archive is; null if none is configured.")]
ServerName = Annotated[
    str,
    Meta(
        description="The name of the service in the archive: its service_id, until it is upgraded to another version."
    ),
]
Problem = Annotated[str | None, Meta(description="What keeps the archive from catching up, null for nothing.")]
Enabled = Annotated[bool | None, Meta(description="A boolean; null for the default of the environment.")]


class Archive(Struct, frozen=True):
    """The off-host archive of a service. What was committed before `archived_until` survives the loss of the host."""

    enabled: bool
    url: ArchiveUrl
    server_name: ServerName
    archived_until: OptionalTimestamp
    lag_seconds: Lag
    base_backup_time: OptionalTimestamp
    last_proven_restore: OptionalTimestamp
    problem: Problem


class DeletedService(Struct, frozen=True):
    """A deleted service that can still be forked as of any time from earliest to latest."""

    service_id: Identifier
    name: str
    environment_tag: Environment
    created: Timestamp
    deleted: Timestamp
    earliest: Timestamp
    latest: Timestamp


class ArchiveSettings(Body, frozen=True, kw_only=True):
    """Whether the service is archived off the host. PROD services are by default, DEV services are not."""

    enabled: Enabled | UnsetType = UNSET
