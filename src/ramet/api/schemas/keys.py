"""The schemas of API keys."""

from typing import Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.api.schemas.shared import Body, Identifier, Name, Timestamp
from ramet.model.keys import LONGEST_OVERLAP_SECONDS, OVERLAP_SECONDS, ApiKey
from ramet.model.life_span import LEAST_SECONDS, MOST_SECONDS
from ramet.model.rights import Role
from ramet.model.secret import Secret

_AMOUNT = {"minimum": 0}
PublicKey = Annotated[str, Meta(pattern="^RK[A-Z0-9]{18}$")]
RoleName = Annotated[Role, Meta(description="One of VIEWER, FORKER, DEVELOPER, ADMIN.")]
Parents = Annotated[
    list[Identifier], Meta(description="The ids of the services that a FORKER may fork, 1 to 100; of no other role.")
]
MaxForkTtl = Annotated[
    int,
    Meta(
        description="The longest life span of a fork of the key, in seconds from its creation; of a FORKER 86400 by"
        f" default. An integer from {LEAST_SECONDS} to {MOST_SECONDS}."
    ),
]
MaxServices = Annotated[
    int, Meta(description="How many services the key may have made at once.", extra_json_schema=_AMOUNT)
]
MaxForks = Annotated[
    int,
    Meta(
        description="How many forks the key may have made at once; of a FORKER 10 by default.",
        extra_json_schema=_AMOUNT,
    ),
]
MaxCpu = Annotated[
    int, Meta(description="Thousandths of a core that its services may have in all.", extra_json_schema=_AMOUNT)
]
MaxMemory = Annotated[
    int, Meta(description="Gigabytes of memory that its services may have in all.", extra_json_schema=_AMOUNT)
]
MaxStorage = Annotated[
    int, Meta(description="Gigabytes on disk from which on it can make no more.", extra_json_schema=_AMOUNT)
]
KeyExpiresAt = Annotated[
    str,
    Meta(
        description="When the key expires: RFC 3339 with an offset; without it, never.",
        extra_json_schema={"format": "date-time"},
    ),
]
Overlap = Annotated[
    int,
    Meta(
        description=f"For how many seconds the present secret is accepted, too: 0 to {LONGEST_OVERLAP_SECONDS};"
        f" {OVERLAP_SECONDS} by default.",
        extra_json_schema={"minimum": 0, "maximum": LONGEST_OVERLAP_SECONDS},
    ),
]


class Key(Struct, frozen=True, omit_defaults=True):
    """An API key, without its secret. `last_used` is up to a minute or so behind; `made_by` is a public key."""

    public_key: PublicKey
    name: str
    role: RoleName
    created: Timestamp
    expires_at: Timestamp | None = None
    last_used: Timestamp | None = None
    revoked: Timestamp | None = None
    previous_secret_until: Timestamp | None = None
    made_by: str | None = None
    parents: Parents | None = None
    max_fork_ttl_seconds: MaxForkTtl | None = None
    max_services: MaxServices | None = None
    max_forks: MaxForks | None = None
    max_cpu_millis: MaxCpu | None = None
    max_memory_gbs: MaxMemory | None = None
    max_storage_gbs: MaxStorage | None = None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        """Return what clients see of a key."""
        return msgspec.convert(_fields(key), cls)


class KeyWithSecret(Key, frozen=True, omit_defaults=True, kw_only=True):
    """An API key with its secret, which no other response contains."""

    secret_key: str

    @classmethod
    def with_secret(cls, key: ApiKey, secret: Secret) -> Self:
        """Return what its maker sees of a key, this once."""
        return msgspec.convert(_fields(key) | {"secret_key": secret.reveal()}, cls)


class KeyCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new API key."""

    name: Name
    role: RoleName
    expires_at: KeyExpiresAt | None = None
    parents: Parents | None = None
    max_fork_ttl_seconds: MaxForkTtl | None = None
    max_services: MaxServices | None = None
    max_forks: MaxForks | None = None
    max_cpu_millis: MaxCpu | None = None
    max_memory_gbs: MaxMemory | None = None
    max_storage_gbs: MaxStorage | None = None


class KeyUpdate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to an API key: absent fields are kept, null removes a limit. Its role stays."""

    name: Name | UnsetType = UNSET
    expires_at: KeyExpiresAt | UnsetType | None = UNSET
    parents: Parents | UnsetType = UNSET
    max_fork_ttl_seconds: MaxForkTtl | UnsetType | None = UNSET
    max_services: MaxServices | UnsetType | None = UNSET
    max_forks: MaxForks | UnsetType | None = UNSET
    max_cpu_millis: MaxCpu | UnsetType | None = UNSET
    max_memory_gbs: MaxMemory | UnsetType | None = UNSET
    max_storage_gbs: MaxStorage | UnsetType | None = UNSET


class KeyRotate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another secret for an API key."""

    overlap_seconds: Overlap | None = None


def _fields(key: ApiKey) -> dict[str, Any]:
    limits: dict[str, Any] = msgspec.to_builtins(key.limits)
    return limits | {
        "public_key": key.public_key,
        "name": key.name,
        "role": key.role,
        "created": key.created_at,
        "expires_at": key.expires_at,
        "last_used": key.used_at,
        "revoked": key.revoked_at,
        "previous_secret_until": key.previous_until,
        "made_by": key.made_by,
    }
