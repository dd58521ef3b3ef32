"""The published names of series, which existing clients know: each is an alias of one that Ramet measures."""

from dataclasses import dataclass

from ramet.errors import Invalid
from ramet.model.metrics import SERIES, Function

PUBLISHED = "timescale_cloud_"
_OWN = "ramet_"


@dataclass(frozen=True)
class Alias:
    """Another name of a series; `factor` turns its unit into the published one."""

    name: str
    factor: float = 1.0


_ALIASES = {
    **{PUBLISHED + name.removeprefix(_OWN): Alias(name) for name in SERIES},
    # A counter's own function is its rate: seconds of CPU a second, so cores.
    f"{PUBLISHED}system_cpu_usage_millicores": Alias("ramet_cpu_seconds_total", 1000.0),
    f"{PUBLISHED}system_memory_usage_bytes": Alias("ramet_memory_bytes"),
    f"{PUBLISHED}system_disk_usage_bytes": Alias("ramet_storage_bytes"),
}


def resolved(name: str, function: Function | None) -> Alias:
    """Return what a name stands for, itself when it is no alias. Raises Invalid for an alias with a function."""
    found = _ALIASES.get(name)
    if found is None:
        return Alias(name)
    if function is not None:
        raise Invalid(
            "INVALID_REQUEST",
            f"fn {function} cannot be applied to {name}, which has a function of its own",
            f"Leave fn out, or ask for {found.name}.",
        )
    return found


def published_names(names: set[str]) -> list[str]:
    """Return the aliases of these series."""
    return [alias for alias, meant in _ALIASES.items() if meant.name in names]
