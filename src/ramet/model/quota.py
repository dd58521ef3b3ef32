"""Quotas: how much a project, or one key of it, may have."""

from msgspec import Struct

from ramet.errors import Invalid

NAMES = ("max_services", "max_forks", "max_cpu_millis", "max_memory_gbs", "max_storage_gbs")


class Quota(Struct, frozen=True, omit_defaults=True):
    """How much there may be at once; None: no limit. `max_services` counts forks too.

    CPU and memory are those of services that have a size of their own; space is what their files take.
    """

    max_services: int | None = None
    max_forks: int | None = None
    max_cpu_millis: int | None = None
    max_memory_gbs: int | None = None
    max_storage_gbs: int | None = None


def check_quota(quota: Quota) -> None:
    """Raise Invalid for a limit that is negative."""
    for name in NAMES:
        if (most := getattr(quota, name)) is not None and most < 0:
            raise Invalid("INVALID_FIELD", f"{name} must be 0 or more (got {most})")
