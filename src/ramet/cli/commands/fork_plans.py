"""The dry run of a fork: what it would be, and how long it would take."""

from rich.text import Text

from ramet.api.schemas.forks import ForkPlan, PlannedDownload
from ramet.cli.ui.durations import shown_duration, shown_mib
from ramet.model.timestamps import rfc3339


def plan_pairs(plan: ForkPlan) -> list[tuple[str, str | Text]]:
    """Return what a fork would be, for a table."""
    base = plan.base_snapshot
    target = "" if plan.target_time is None else f" at {rfc3339(plan.target_time)}"
    base_time = "" if base is None or base.time is None else rfc3339(base.time)
    return [
        ("name", plan.name),
        ("data", f"{plan.strategy}{target}"),
        ("base snapshot", "-" if base is None else f"{base.id} of {base_time}"),
        *_download_pairs(plan.archive),
        *_copy_pairs(plan.copied_bytes),
        ("WAL to replay", "-" if plan.wal_bytes is None else shown_mib(plan.wal_bytes)),
        ("takes about", shown_duration(plan.estimated_seconds)),
    ]


def _copy_pairs(copied_bytes: int | None) -> list[tuple[str, str | Text]]:
    if copied_bytes is None:
        return []
    return [("copy over the network", f"all data, {copied_bytes / 1e6:.1f} MB, which takes as much room again")]


def _download_pairs(planned: PlannedDownload | None) -> list[tuple[str, str | Text]]:
    if planned is None:
        return []
    rate = f"{planned.bytes_per_second / 1e6:.0f} MB/s"
    return [
        ("from the archive", f"base backup {planned.base_backup} of {rfc3339(planned.base_time)}"),
        ("download", f"about {planned.download_bytes / 1e6:.1f} MB at {rate}"),
    ]
