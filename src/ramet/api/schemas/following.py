"""The schemas of services that follow databases elsewhere: the request, the report, and the promotion."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.imports import ImportFinding, RootCertificate, SourcePassword, SourceUrl
from ramet.api.schemas.life_spans import KeptBody
from ramet.api.schemas.service_bodies import ServiceTypeWanted
from ramet.api.schemas.shared import Body, Cpu, Memory, Name, Tag
from ramet.model.upstream import FollowMethod

FollowedMajor = Annotated[
    int,
    Meta(
        description="A PostgreSQL major version, such as 18; with PHYSICAL only that of the source. By default one that"
        " suits the source."
    ),
]
FollowedType = Annotated[
    ServiceTypeWanted,
    Meta(
        description="One of TIMESERIESDB, TIMESCALEDB, POSTGRES, VECTOR: the type of the source; POSTGRES by default."
        " With PHYSICAL it is TIMESERIESDB where the source has TimescaleDB."
    ),
]
Slot = Annotated[
    str,
    Meta(description="The name of a physical replication slot in the source, 1 to 63 of a-z, 0-9 and _, a string."),
]
CreateSlot = Annotated[
    bool,
    Meta(
        description="true or false: make a physical replication slot of the service's own in the source, which has a"
        " limit (max_slot_wal_keep_size); it is dropped with the promotion or the service."
    ),
]
SourceArchive = Annotated[
    str,
    Meta(
        description="A subdirectory of RAMET_SOURCE_ARCHIVES on the host of Ramet that has the source's archived WAL, a"
        " string of 1 to 63 letters, digits and ._-"
    ),
]
Lsn = Annotated[str, Meta(description="An LSN of the source such as 16/B374D848, a string: it is replayed first.")]
Drain = Annotated[bool, Meta(description="true or false: wait until the source was shut down, and all of it is here.")]
Neutralize = Annotated[
    bool,
    Meta(description="true or false: disable what acts on the outside world, and give all roles other passwords."),
]


Method = Annotated[
    FollowMethod,
    Meta(
        description="One of PHYSICAL, LOGICAL: a standby of the whole server, or a subscription to one database, for"
        " sources where only SQL is allowed. PHYSICAL by default."
    ),
]


class ServiceFollow(KeptBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service that follows a server elsewhere. The password is in no response, log or listing."""

    name: Name
    source_url: SourceUrl
    source_password: SourcePassword
    root_certificate: RootCertificate | None = None
    slot: Slot | None = None
    create_slot: CreateSlot | None = None
    archive: SourceArchive | None = None
    method: Method | None = None
    cpu_millis: Cpu | None = None
    memory_gbs: Memory | None = None
    environment_tag: Tag | None = None
    pg_major: FollowedMajor | None = None
    service_type: FollowedType | None = None


class FollowReport(Struct, frozen=True, omit_defaults=True):
    """What following a source would do. A finding that is REFUSED prevents it."""

    source: Annotated[str, Meta(description="user@host:port/database.")]
    version: Annotated[str, Meta(description="The PostgreSQL version of the source.")]
    size_bytes: int
    databases: list[str]
    findings: list[ImportFinding]


TakePlace = Annotated[
    bool,
    Meta(
        description="true or false: the source was a service of another Ramet, and this one is that service from now"
        " on: all passwords, subscriptions and prepared transactions stay."
    ),
]


class ServicePromote(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a service stops following its source. By default at once, with what it has received."""

    wait_for_lsn: Lsn | None = None
    drain: Drain | None = None
    neutralize: Neutralize | None = None
    take_place: TakePlace | None = None
