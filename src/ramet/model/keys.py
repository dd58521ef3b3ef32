"""API keys: their roles, limits and secrets, and when they open their project."""

import hashlib
import hmac
import secrets
import string
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from ramet.errors import Invalid
from ramet.model.life_span import check_seconds
from ramet.model.passwords import Secret, derived_password, new_password
from ramet.model.quota import Quota, check_quota
from ramet.model.rights import Role

LONGEST_OVERLAP_SECONDS = 30 * 86_400
OVERLAP_SECONDS = 3600
_SECRET_LENGTH = 40


class KeyLimits(Quota, frozen=True, omit_defaults=True):
    """What one key may have of its project; None: no limit of its own.

    `parents` are the ids of the services that a forker may fork. None of the forks of the key lives longer than
    `max_fork_ttl_seconds` from when it was made.
    """

    max_fork_ttl_seconds: int | None = None
    parents: tuple[str, ...] = ()


NO_KEY_LIMITS = KeyLimits()
_FORKER = KeyLimits(max_forks=10, max_fork_ttl_seconds=86_400)
_MOST_PARENTS = 100


class ApiKey(Struct, frozen=True):
    """A key as the store knows it: of the secret only a digest.

    Until `previous_until` the secret before the last rotation is accepted, too. `used_at` is at most a minute or so
    behind. `made_by` is the public key of who made it through the interface.
    """

    public_key: str
    project_id: str
    name: str
    secret_digest: str
    created_at: datetime
    revoked_at: datetime | None = None
    role: Role = Role.ADMIN
    expires_at: datetime | None = None
    used_at: datetime | None = None
    previous_digest: str | None = None
    previous_until: datetime | None = None
    limits: KeyLimits = NO_KEY_LIMITS
    made_by: str | None = None

    @property
    def sees_own_only(self) -> bool:
        """Whether services that other keys made do not exist for this one."""
        return self.role is Role.FORKER

    def is_active(self, now: datetime) -> bool:
        """Tell whether it opens its project."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def opened(key: ApiKey, secret: Secret, now: datetime) -> ApiKey | None:
    """Return a key that this secret opens now, else None; compares in constant time.

    When the secret is the one before the last rotation, what is returned expires with that secret, and has its digest.
    """
    digest = digest_secret(secret)
    is_present = hmac.compare_digest(key.secret_digest, digest)
    is_previous = hmac.compare_digest(key.previous_digest or key.secret_digest, digest)
    if not key.is_active(now):
        return None
    if is_present:
        return key
    until = key.previous_until
    if not is_previous or until is None or now >= until:
        return None
    return replace(ending(key, until), secret_digest=digest)


def reopened(key: ApiKey, proven: ApiKey) -> ApiKey | None:
    """Return a key as it is now for the secret that it was opened with before, as `opened` does.

    None when it has been rotated since, so that this is not even the previous secret.
    """
    if proven.secret_digest == key.secret_digest:
        return key
    if proven.secret_digest != key.previous_digest:
        return None
    return replace(ending(key, key.previous_until), secret_digest=proven.secret_digest)


def ending(key: ApiKey, until: datetime | None) -> ApiKey:
    """Return a key that expires at a time at the latest."""
    if until is None or (key.expires_at is not None and key.expires_at <= until):
        return key
    return replace(key, expires_at=until)


def checked_limits(role: Role, limits: KeyLimits) -> KeyLimits:
    """Return the limits of a key; a forker always has a number of forks and a life span. Raises Invalid."""
    check_quota(limits)
    if limits.max_fork_ttl_seconds is not None:
        check_seconds("max_fork_ttl_seconds", limits.max_fork_ttl_seconds)
    if role is not Role.FORKER:
        if limits.parents:
            wrong = f"parents is for the role {Role.FORKER}, and this is a {role} key"
            raise Invalid("INVALID_PARENTS", wrong, "Leave it out: other roles see all services.")
        return limits
    if not 1 <= len(limits.parents) <= _MOST_PARENTS:
        wrong = (
            f"parents must name 1 to {_MOST_PARENTS} services that a {role} key may fork (got {len(limits.parents)})"
        )
        raise Invalid("INVALID_PARENTS", wrong, "Name each of them in parents.")
    forks, seconds = limits.max_forks, limits.max_fork_ttl_seconds
    return replace(
        limits,
        parents=tuple(dict.fromkeys(limits.parents)),
        max_forks=_FORKER.max_forks if forks is None else forks,
        max_fork_ttl_seconds=_FORKER.max_fork_ttl_seconds if seconds is None else seconds,
    )


def new_public_key() -> str:
    """Return a fresh public key."""
    return "RK" + "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(18))


def new_secret() -> Secret:
    """Return a fresh secret."""
    return new_password(_SECRET_LENGTH)


def derived_secret(root_key: bytes, public_key: str, idempotency_key: str, replaced_digest: str) -> Secret:
    """Return the secret that replaces another one: the same again for whoever repeats a rotation with the same key."""
    replaced = f"{public_key} {replaced_digest}"
    return derived_password(root_key, replaced, idempotency_key, _SECRET_LENGTH)


def digest_secret(secret: Secret) -> str:
    """Return the digest under which a key's secret is stored; the secret has 238 random bits, so no salt."""
    return hashlib.sha256(secret.reveal().encode()).hexdigest()
