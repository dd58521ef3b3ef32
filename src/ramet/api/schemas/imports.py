"""The schemas of imports: the request, and the report."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.life_spans import KeptBody
from ramet.api.schemas.service_bodies import ServiceTypeWanted
from ramet.api.schemas.shared import Cpu, Memory, Name, Tag
from ramet.imports.findings import Effect

SourceUrl = Annotated[
    str,
    Meta(description="A string such as postgresql://user@host:5432/database?sslmode=require, without a password."),
]
SourcePassword = Annotated[
    str,
    Meta(
        description="The password of the role that the URL names, a string of 1 to 1000 printable characters.",
        extra_json_schema={"format": "password"},
    ),
]
RootCertificate = Annotated[str, Meta(description="PEM, for sslmode=verify-ca and verify-full, a string.")]
Owners = Annotated[
    bool,
    Meta(description="true or false: keep roles, owners and privileges; by default true, else tsdbadmin owns all."),
]
ImportedMajor = Annotated[
    int, Meta(description="A PostgreSQL major version, such as 18, not older than the source's; by default it decides.")
]
ImportType = Annotated[
    ServiceTypeWanted, Meta(description="One of TIMESERIESDB, TIMESCALEDB, POSTGRES, VECTOR; POSTGRES by default.")
]


class ServiceImport(KeptBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service with the contents of a database elsewhere. The password is in no response, log or listing."""

    name: Name
    source_url: SourceUrl
    source_password: SourcePassword
    root_certificate: RootCertificate | None = None
    keep_owners: Owners | None = None
    service_type: ImportType | None = None
    cpu_millis: Cpu | None = None
    memory_gbs: Memory | None = None
    environment_tag: Tag | None = None
    pg_major: ImportedMajor | None = None


class ImportFinding(Struct, frozen=True):
    """A line of the report: REFUSED prevents the import, CHANGED is different in the service, NOTED is good to know."""

    effect: Effect
    subject: str
    message: str
    remedy: str


class ImportReport(Struct, frozen=True, omit_defaults=True):
    """What an import does, and how far it came. What is not known yet is absent."""

    source: Annotated[str, Meta(description="user@host:port/database.")]
    version: Annotated[str, Meta(description="The PostgreSQL version of the source.")]
    pg_major: Annotated[int, Meta(description="The PostgreSQL major version of the service.")]
    size_bytes: int
    tables: int
    large_objects: int
    findings: list[ImportFinding]
    status: Annotated[str, Meta(description="That of the operation.")] | None = None
    error: Annotated[str, Meta(description="Why it failed.")] | None = None
    received_bytes: Annotated[int, Meta(description="Bytes that came from the source.")] | None = None
    fetch_seconds: float | None = None
    load_seconds: float | None = None
    loaded_tables: Annotated[int, Meta(description="Tables whose rows were loaded.")] | None = None
    problems: (
        Annotated[list[str], Meta(description="Settings, memberships and privileges that were not taken.")] | None
    ) = None
    statistics: Annotated[str, Meta(description="How ANALYZE ended.")] | None = None
