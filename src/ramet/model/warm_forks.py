"""The pool of warm forks that a service keeps, and what is known of each fork in it. Both are settings in the store.

A service without such a setting that is forked often gets an automatic pool, which is stored nowhere. A pool of size 0
says that it is to have none.

A warm fork holds everything that was committed in its parent before `as_of`. It holds exactly what the parent has as
long as the parent's commit mark is the one that was read before the fork was made.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from ramet import __version__
from ramet.errors import Invalid
from ramet.model.service import Service

MOST_FORKS = 20
LEAST_AGE_SECONDS = 10
MOST_AGE_SECONDS = 86_400
DEFAULT_AGE_SECONDS = 600
POOL_SETTING = "warm_forks"
_FORK_SETTING = "warm"
_INHERITED = ("project_id", "region_code", "service_type", "environment", "size", "volume_type", "pg_major")


class Pool(Struct, frozen=True, omit_defaults=True):
    """How many forks a service keeps ready, and how old the state of one may be when it is given to a client.

    An automatic one is Ramet's own choice, because the service is forked often.
    """

    size: int
    max_age_seconds: int = DEFAULT_AGE_SECONDS
    automatic: bool = False


class Warmth(Struct, frozen=True):
    """What a warm fork holds: all that was committed before `as_of`, and nothing else while `mark` is the parent's.

    `release` is that of Ramet which made it: a later one may do more to forks before clients get them.
    """

    as_of: datetime
    mark: str | None = None
    release: str = ""

    def is_within(self, max_age_seconds: int, now: datetime) -> bool:
        """Tell whether the state is at most so old. One from the future was made before the clock was set back."""
        return timedelta(0) <= now - self.as_of <= timedelta(seconds=max_age_seconds)


AUTOMATIC = Pool(1, automatic=True)


def check_pool(size: int, max_age_seconds: int) -> Pool:
    """Return a pool. Raises Invalid when it is too small, too large, or has an age that is."""
    if not 0 <= size <= MOST_FORKS:
        raise Invalid("INVALID_SIZE", f"size must be between 0 and {MOST_FORKS} (got {size})")
    return Pool(size, check_age(max_age_seconds))


def check_age(max_age_seconds: int) -> int:
    """Return an age. Raises Invalid when it is too short or too long."""
    if not LEAST_AGE_SECONDS <= max_age_seconds <= MOST_AGE_SECONDS:
        limits = f"between {LEAST_AGE_SECONDS} and {MOST_AGE_SECONDS}"
        raise Invalid("INVALID_MAX_AGE_SECONDS", f"max_age_seconds must be {limits} (got {max_age_seconds})")
    return max_age_seconds


def pool_of(parent: Service) -> Pool | None:
    """Return the pool that a service was given, or None."""
    stored = parent.settings.get(POOL_SETTING)
    return None if stored is None else msgspec.convert(stored, Pool)


def with_pool(settings: Mapping[str, Any], pool: Pool | None) -> dict[str, Any]:
    """Return the settings of a service with this pool, or without one."""
    others = {name: value for name, value in settings.items() if name != POOL_SETTING}
    return others if pool is None else {**others, POOL_SETTING: msgspec.to_builtins(pool)}


def warmth_of(fork: Service) -> Warmth | None:
    """Return what is known of a fork that was made in advance, also after it was given to a client; else None."""
    stored = fork.settings.get(_FORK_SETTING)
    return None if stored is None else msgspec.convert(stored, Warmth)


def with_warmth(settings: Mapping[str, Any], warmth: Warmth) -> dict[str, Any]:
    """Return the settings of a warm fork."""
    return {**settings, _FORK_SETTING: msgspec.to_builtins(warmth)}


def settings_but_warmth(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a fork as it would have been made when it was asked for."""
    return {name: value for name, value in settings.items() if name != _FORK_SETTING}


def is_like(fork: Service, wanted: Service) -> bool:
    """Tell whether a warm fork has all that a wanted one would inherit or be given when it is made by this release."""
    warmth = warmth_of(fork)
    if warmth is None or warmth.release != __version__:
        return False
    same = all(getattr(fork, name) == getattr(wanted, name) for name in _INHERITED)
    return (
        same
        and settings_but_warmth(fork.settings) == wanted.settings
        and fork.sleep_after_seconds == wanted.sleep_after_seconds
    )
