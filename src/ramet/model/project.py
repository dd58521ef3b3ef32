"""Projects, and the API keys that open them."""

import hashlib
import hmac
import secrets
import string
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from ramet.errors import Exhausted, Invalid
from ramet.model.life_span import LifeSpan, check_seconds, for_seconds
from ramet.model.passwords import Secret
from ramet.model.sleep import check_sleep_after

_ALPHABET = string.ascii_letters + string.digits


class ProjectLimits(Struct, frozen=True, omit_defaults=True):
    """What a project may have; None: no limit.

    A fork without a life span gets `fork_ttl_seconds`, and none lives longer than `max_fork_ttl_seconds` from when it
    was made or extended. `max_services` counts forks too. A fork falls asleep after `fork_sleep_after_seconds` unless
    another time is requested.
    """

    fork_ttl_seconds: int | None = None
    max_fork_ttl_seconds: int | None = None
    max_services: int | None = None
    max_forks: int | None = None
    fork_sleep_after_seconds: int | None = None


NO_LIMITS = ProjectLimits()


@dataclass(frozen=True)
class Project:
    """A project holds services; its keys open it and nothing else."""

    id: str
    name: str
    created_at: datetime
    limits: ProjectLimits = NO_LIMITS


def check_limits(limits: ProjectLimits) -> ProjectLimits:
    """Return limits. Raises Invalid when one is out of range, or when two contradict each other."""
    for name in ("fork_ttl_seconds", "max_fork_ttl_seconds"):
        if (seconds := getattr(limits, name)) is not None:
            check_seconds(name, seconds)
    for name in ("max_services", "max_forks"):
        if (most := getattr(limits, name)) is not None and most < 0:
            raise Invalid("INVALID_FIELD", f"{name} must be 0 or more (got {most})")
    check_sleep_after(limits.fork_sleep_after_seconds, "fork_sleep_after_seconds")
    default, most = limits.fork_ttl_seconds, limits.max_fork_ttl_seconds
    if default is not None and most is not None and default > most:
        raise Invalid("INVALID_FIELD", f"fork_ttl_seconds must be at most max_fork_ttl_seconds, {most} (got {default})")
    return limits


def check_counts(limits: ProjectLimits, services: int, forks: int) -> None:
    """Raise Exhausted when a project would have more services, or forks among them, than it may."""
    for name, what, most, wanted in (
        ("max_services", "services", limits.max_services, services),
        ("max_forks", "forks", limits.max_forks, forks),
    ):
        if most is not None and wanted > most:
            raise Exhausted(
                "PROJECT_LIMIT",
                f"The project may have {most} {what}, and would have {wanted} ({name})",
                "Delete some, or raise the limit on the host with 'ramet project limits'.",
            )


def limited(limits: ProjectLimits, span: LifeSpan | None, now: datetime) -> LifeSpan | None:
    """Return the life span of a fork of the project: the default where it has no end. Raises Invalid over the maximum.

    Idleness does not count as an end: a fork that is always in use has none.
    """
    most = limits.max_fork_ttl_seconds
    if span is None or span.expires_at is None:
        seconds = limits.fork_ttl_seconds or most
        return span if seconds is None else for_seconds(span or LifeSpan(), seconds, now)
    if most is not None and (span.expires_at - now).total_seconds() > most:
        raise Invalid(
            "LIFE_SPAN_TOO_LONG",
            f"A fork in this project may live {most} s (max_fork_ttl_seconds), and this one would live"
            f" {round((span.expires_at - now).total_seconds())} s",
            "Send a shorter life span, and extend the fork later.",
        )
    return span


@dataclass(frozen=True)
class ApiKey:
    """A key as the store knows it: of the secret only a digest."""

    public_key: str
    project_id: str
    name: str
    secret_digest: str
    created_at: datetime
    revoked_at: datetime | None = None


def new_key_pair() -> tuple[str, Secret]:
    """Return a fresh public key and its secret."""
    public_key = "RK" + "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(18))
    return public_key, Secret("".join(secrets.choice(_ALPHABET) for _ in range(40)))


def digest_secret(secret: Secret) -> str:
    """Return the digest under which a key's secret is stored; the secret has 238 random bits, so no salt."""
    return hashlib.sha256(secret.reveal().encode()).hexdigest()


def matches(key: ApiKey, secret: Secret) -> bool:
    """Compare in constant time; a revoked key matches nothing."""
    return hmac.compare_digest(key.secret_digest, digest_secret(secret)) and key.revoked_at is None
