"""The schemas of credentials: what a key belongs to, and the end of a session."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body, Ignored, Timestamp, twin_of


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


class AuthInfoApiKey(Struct, frozen=True):
    """The API key of a request."""

    public_key: str
    name: str
    created: Timestamp
    project: AuthInfoProject
    issuing_user: AuthInfoIssuingUser


class AuthInfo(Struct, frozen=True):
    """The credentials of a request."""

    type: str
    api_key: AuthInfoApiKey
    apiKey: Annotated[AuthInfoApiKey, twin_of("api_key", "ApiKeyDeprecated")]  # noqa: N815


class Logout(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ends a session; API keys have none."""

    refresh_token: Ignored | None = None
