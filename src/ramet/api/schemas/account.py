"""The schemas of projects and credentials, of the end of a session, and of the analytics that clients send."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.keys import RoleName
from ramet.api.schemas.shared import Body, Identifier, Ignored, Properties, Timestamp, twin_of


class Project(Struct, frozen=True):
    """A project: it holds services."""

    id: str
    name: str


class QuotaUse(Struct, frozen=True):
    """What the services of a project use up of its limits now; their space as it was measured last."""

    services: int
    forks: int
    cpu_millis: int
    memory_gbs: int
    storage_gbs: float


class ProjectLimits(Struct, frozen=True):
    """What a project may have; null: no limit. `ramet project limits` changes them on the host."""

    fork_ttl_seconds: Annotated[int | None, Meta(description="The life span of a fork that is requested without one.")]
    max_fork_ttl_seconds: Annotated[int | None, Meta(description="The longest life span of a fork.")]
    max_services: Annotated[int | None, Meta(description="How many services there may be, forks included.")]
    max_forks: int | None
    fork_sleep_after_seconds: Annotated[
        int | None, Meta(description="When forks fall asleep that are requested without a time.")
    ]
    max_cpu_millis: int | None
    max_memory_gbs: int | None
    max_storage_gbs: int | None
    used: QuotaUse


class CertificateAuthority(Struct, frozen=True):
    """What clients verify the endpoints of services with, and HTTP where it has a certificate of this authority."""

    certificate: Annotated[str, Meta(description="PEM.")]
    sha256_fingerprint: Annotated[str, Meta(description="Of the certificate, as 32 bytes in hexadecimal with colons.")]


class AuthInfoProject(Struct, frozen=True):
    """The project that a key opens."""

    id: str
    name: str
    plan_type: str


class AuthInfoIssuingUser(Struct, frozen=True):
    """The issuer of a key. Ramet has no users, so it is the key itself."""

    id: str
    name: str
    email: Annotated[str, Meta(extra_json_schema={"format": "email"})]


class AuthInfoParent(Struct, frozen=True):
    """A service that a FORKER may fork."""

    service_id: Identifier
    name: str


class AuthInfoApiKey(Struct, frozen=True, omit_defaults=True):
    """The API key of a request. `parents` are what a FORKER may fork beside its own forks."""

    public_key: str
    name: str
    created: Timestamp
    project: AuthInfoProject
    issuing_user: AuthInfoIssuingUser
    role: RoleName
    expires_at: Timestamp | None = None
    parents: list[AuthInfoParent] | None = None


class AuthInfo(Struct, frozen=True):
    """The credentials of a request."""

    type: str
    api_key: AuthInfoApiKey
    apiKey: Annotated[AuthInfoApiKey, twin_of("api_key", "ApiKeyDeprecated")]  # noqa: N815


class Logout(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ends a session; API keys have none."""

    refresh_token: Ignored | None = None


class AnalyticsResult(Struct, frozen=True):
    """The response to analytics, which are not recorded."""

    status: str


class IdentifyUser(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client reports about its user; ignored."""

    properties: Properties | None = None


class TrackEvent(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client reports about its use; ignored."""

    event: Ignored
    properties: Properties | None = None
