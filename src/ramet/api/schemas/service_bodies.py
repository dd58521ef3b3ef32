"""The schemas of requests for services and for changes to them."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from ramet.api.schemas.life_spans import KeptBody
from ramet.api.schemas.shared import Body, Cpu, EnvironmentName, Memory, Name, Tag, WalLevelWanted
from ramet.model.high_availability import MOST_STANDBYS

Region = Annotated[str, Meta(description="The region code of this host as a string; optional.")]
ReplicaCount = Annotated[
    int, Meta(description=f"An integer from 0 to {MOST_STANDBYS}; more than 0 need a backend with high availability.")
]
PgMajorWanted = Annotated[
    int, Meta(description="A PostgreSQL major version, such as 18; by default the host's default version.")
]


class Addon(StrEnum):
    """Capabilities of a new service."""

    TIME_SERIES = "time-series"
    AI = "ai"


class ServiceTypeWanted(StrEnum):
    """The type of a new service. TIMESCALEDB is another name of TIMESERIESDB."""

    TIMESERIESDB = "TIMESERIESDB"
    TIMESCALEDB = "TIMESCALEDB"
    POSTGRES = "POSTGRES"
    VECTOR = "VECTOR"


class ServiceCreate(KeptBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new, empty service. Without a size it shares the host's resources."""

    name: Name
    addons: Annotated[list[Addon], Meta(description="An array of 'time-series' and 'ai'.")] | None = None
    service_type: (
        Annotated[
            ServiceTypeWanted,
            Meta(
                description="One of TIMESERIESDB (or TIMESCALEDB, which is the same), POSTGRES, VECTOR;"
                " takes precedence over addons."
            ),
        ]
        | None
    ) = None
    region_code: Region | None = None
    replica_count: ReplicaCount | None = None
    cpu_millis: Cpu | None = None
    memory_gbs: Memory | None = None
    environment_tag: Tag | None = None
    wal_level: WalLevelWanted | None = None
    pg_major: PgMajorWanted | None = None


NewPassword = Annotated[
    str, Meta(description="A string of 1 to 1000 printable characters.", extra_json_schema={"format": "password"})
]
Count = Annotated[
    int,
    Meta(
        description=f"An integer from 0 to {MOST_STANDBYS}; more than 0 need a backend with high availability.",
        extra_json_schema={"minimum": 0},
    ),
]


class ServiceRename(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new name for a service."""

    name: Name


class ExtensionsInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which extensions of a service to update."""

    extension: Annotated[str, Meta(description="The name of one extension; all of them by default.")] | None = None


class ResizeInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new size for a service."""

    cpu_millis: Cpu
    memory_gbs: Memory


class UpdatePasswordInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new password for tsdbadmin."""

    password: NewPassword


class SetEnvironmentInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The environment: PROD (a restore or a move needs its name) or DEV (neutralized when forked)."""

    environment: EnvironmentName


class SetHAReplicaInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted number of high-availability replicas, and how many of them are synchronous."""

    sync_replica_count: Count | None = None
    replica_count: Count | None = None
