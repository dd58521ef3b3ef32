"""The published names of series, which existing clients know: each is an alias of one that Ramet measures."""

from dataclasses import dataclass

from ramet.errors import Invalid
from ramet.model.metrics import Function


@dataclass(frozen=True)
class Alias:
    """Another name of a series; `factor` turns its unit into the published one."""

    name: str
    factor: float = 1.0


# docs/compatibility.md, 29. Statements are not counted: transactions stand for queries. Seconds of CPU a second: cores.
_ALIASES = {
    "timescale_cloud_database_num_connections": Alias("ramet_connections"),
    "timescale_cloud_database_qps": Alias("ramet_transactions_total"),
    "timescale_cloud_system_cpu_usage_millicores": Alias("ramet_cpu_seconds_total", 1000.0),
    "timescale_cloud_system_disk_usage_bytes": Alias("ramet_storage_bytes"),
    "timescale_cloud_system_memory_usage_bytes": Alias("ramet_memory_bytes"),
}
NOT_MEASURED = frozenset(
    (
        "timescale_cloud_database_job_duration_usecs",
        "timescale_cloud_database_job_success",
        "timescale_cloud_system_cpu_total_millicores",
        "timescale_cloud_system_disk_io_read_bytes",
        "timescale_cloud_system_disk_io_read_ops",
        "timescale_cloud_system_disk_io_total_bytes",
        "timescale_cloud_system_disk_io_total_ops",
        "timescale_cloud_system_disk_io_write_bytes",
        "timescale_cloud_system_disk_io_write_ops",
        "timescale_cloud_system_memory_total_bytes",
    )
)
"""Published names that clients may ask for and that have no data here."""


def resolved(name: str, function: Function | None) -> Alias:
    """Return the metric that a name is an alias of, or the name itself. Raises Invalid for an alias with a function."""
    found = _ALIASES.get(name, Alias(name))
    if function is not None and (name in _ALIASES or name in NOT_MEASURED):
        raise Invalid(
            "INVALID_REQUEST",
            f"fn {function} cannot be applied to {name}, which has its own function",
            "Leave fn out." if found.name == name else f"Leave fn out, or ask for {found.name}.",
        )
    return found


def published_names(names: set[str]) -> list[str]:
    """Return the aliases of these series."""
    return [alias for alias, meant in _ALIASES.items() if meant.name in names]
