"""The standbys of a service that take over when its primary fails: how many, and how many of them are synchronous."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ramet.errors import Invalid

_KEY = "standbys"
MOST_STANDBYS = 4


class Standbys(Struct, frozen=True, gc=False):
    """`count` standbys follow the primary; each commit waits until `synchronous` of them have written it to disk."""

    count: int = 0
    synchronous: int = 0


NO_STANDBYS = Standbys()


def standbys_of(service_settings: Mapping[str, Any]) -> Standbys:
    """Return the standbys of a service by its settings."""
    found = service_settings.get(_KEY)
    return NO_STANDBYS if found is None else Standbys(*found)


def with_standbys(service_settings: Mapping[str, Any], wanted: Standbys) -> dict[str, Any]:
    """Return the settings of a service with these standbys."""
    others = {name: value for name, value in service_settings.items() if name != _KEY}
    return others if wanted == NO_STANDBYS else {**others, _KEY: [wanted.count, wanted.synchronous]}


def requested_standbys(present: Standbys, count: int | None, synchronous: int | None) -> Standbys:
    """Return the standbys that a request asks for: of two numbers one can be left out, and follows the other.

    The one that is left out stays as it is, unless more standbys would be synchronous than there are. Raises Invalid.
    """
    for name, value in (("replica_count", count), ("sync_replica_count", synchronous)):
        if value is not None and not 0 <= value <= MOST_STANDBYS:
            wrong = f"{name} must be between 0 and {MOST_STANDBYS} (got {value})"
            raise Invalid("INVALID_FIELD", wrong, "Send 0 for a service without replicas.")
    if count is not None and synchronous is not None and synchronous > count:
        raise Invalid(
            "CONTRADICTION",
            f"sync_replica_count {synchronous} is more than replica_count {count}, which counts all replicas",
            "Send a sync_replica_count of at most replica_count.",
        )
    if synchronous is None:
        wanted = present.count if count is None else count
        return Standbys(wanted, min(present.synchronous, wanted))
    return Standbys(max(present.count, synchronous) if count is None else count, synchronous)
