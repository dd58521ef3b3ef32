"""What callers ask of the control plane, already parsed: the edges fill these in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.labels import check_labels
from ramet.model.life_span import UNLIMITED, LifeTerms, granted
from ramet.model.passwords import Secret
from ramet.model.service import Service
from ramet.model.service_type import ServiceType
from ramet.model.sleep import check_sleep_after
from ramet.model.wal_level import WalLevel

Amount = str | int | None


# An idempotency key is stored with a digest of its request's repr: another field, or another name of one, would make
# a client's repetition of a request across an upgrade fail.
@dataclass(frozen=True)
class CreateRequest:
    """A new, empty service. Sizes of None mean a shared service, `pg_major` of None the host's default version.

    `with_vectors`: refuse it where the extension vector is missing, whatever its type needs.
    """

    name: str
    service_type: ServiceType = ServiceType.POSTGRES
    region_code: str | None = None
    replica_count: int = 0
    cpu_millis: Amount = None
    memory_gbs: Amount = None
    environment: Environment = Environment.DEV
    with_vectors: bool = False
    wal_level: WalLevel = field(default=WalLevel.REPLICA, repr=False)
    pg_major: int | None = field(default=None, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    protected: bool = field(default=False, repr=False)
    life: LifeTerms = field(default=UNLIMITED, repr=False)
    sleep_after_seconds: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ForkRequest:
    """A fork of an existing service. What is None is inherited; `target_time` is the caller's own text.

    `snapshot_id` is for LAST_SNAPSHOT: that one instead of the newest. `quiet`: keep it from acting on the outside
    world; None: the environment decides, DEV forks are neutralized.

    `region_code` can only be the parent's: a request with it is the same request as one without it, so an idempotency
    key identifies both. So it is with `from_deleted`, that the parent is a service that was deleted and is in the
    off-host archive, and with all that follows. `max_age_seconds`: with NOW, the state may be that old.
    """

    strategy: ForkStrategy
    name: str | None = None
    cpu_millis: Amount = None
    memory_gbs: Amount = None
    target_time: str | None = None
    environment: Environment = Environment.DEV
    snapshot_id: str | None = None
    quiet: bool | None = None
    region_code: str | None = field(default=None, repr=False)
    from_deleted: bool = field(default=False, repr=False)
    wal_level: WalLevel | None = field(default=None, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    protected: bool = field(default=False, repr=False)
    life: LifeTerms = field(default=UNLIMITED, repr=False)
    sleep_after_seconds: int | None = field(default=None, repr=False)
    max_age_seconds: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Accepted:
    """An accepted request: the new service, and the password that is shown this once.

    It is None in the answer to a repeated request when it does not open the service any more.
    """

    service: Service
    initial_password: Secret | None


def kept(request: CreateRequest | ForkRequest, now: datetime) -> dict[str, Any]:
    """Return the fields of a new service that say how long it is kept, and what it is sorted by. Raises Invalid."""
    return {
        "labels": check_labels(request.labels),
        "protected": request.protected,
        "life_span": granted(request.life, now),
        "sleep_after_seconds": check_sleep_after(request.sleep_after_seconds),
    }


def is_neutralized(request: ForkRequest) -> bool:
    """Tell whether a fork is to be kept from acting on the outside world."""
    return request.environment is Environment.DEV if request.quiet is None else request.quiet
