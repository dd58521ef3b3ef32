"""The schemas of logins."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body, Timestamp
from ramet.model.login import LEAST_SECONDS, MOST_SECONDS, USUAL_SECONDS

LoginTtl = Annotated[
    int,
    Meta(
        description=f"The login ends after so many seconds, or with the key: {LEAST_SECONDS} to {MOST_SECONDS};"
        f" {USUAL_SECONDS} by default.",
        extra_json_schema={"minimum": LEAST_SECONDS, "maximum": MOST_SECONDS},
    ),
]

LoginReadOnly = Annotated[bool, Meta(description="true for a login that cannot write, as that of a VIEWER.")]


class Login(Struct, frozen=True):
    """A role of a key in the database of a service. It can log in until `expires_at`."""

    role: str
    public_key: str
    read_only: bool
    created: Timestamp
    expires_at: Timestamp


class LoginWithPassword(Login, frozen=True):
    """A login with its password, which no other response contains."""

    password: str


class LoginCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new login."""

    ttl_seconds: LoginTtl | None = None
    read_only: LoginReadOnly | None = None
