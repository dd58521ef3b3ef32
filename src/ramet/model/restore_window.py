"""The restore window of a service: the times that it can be restored to, the gaps in between, and its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ramet.errors import Invalid
from ramet.model.snapshot import ClockStep, Snapshot, clock_steps, rollable
from ramet.model.timestamps import rfc3339

_KEY = "restore"
BOUNDS = {
    "window_days": (1, 365),
    "snapshot_interval_seconds": (60, 7 * 86_400),
    "snapshot_wal_bytes": (16 * 1024**2, 1024**4),
}


@dataclass(frozen=True)
class RestoreSettings:
    """How far back a service can be restored, and when a snapshot of it is due."""

    window_days: int = 7
    snapshot_interval_seconds: int = 600
    snapshot_wal_bytes: int = 128 * 1024**2

    @property
    def window(self) -> timedelta:
        """How far back."""
        return timedelta(days=self.window_days)


@dataclass(frozen=True)
class Gap:
    """Times that cannot be restored to: after `begins_at` and before `ends_at`; None: until now."""

    begins_at: datetime
    ends_at: datetime | None
    reason: str

    def contains(self, time: datetime) -> bool:
        """Tell whether a time is in the gap; both ends can be restored to."""
        return self.begins_at < time and (self.ends_at is None or time < self.ends_at)


@dataclass(frozen=True)
class RestoreWindow:
    """A service can be restored to times from `earliest` to `latest`, except those in gaps; None: to none yet.

    A time that occurs twice, because the clock of the server was set back, means its last occurrence.
    """

    earliest: datetime | None
    latest: datetime | None
    snapshots: Sequence[Snapshot]
    gaps: Sequence[Gap]
    settings: RestoreSettings
    clock_steps: Sequence[ClockStep] = ()


def restore_window(
    snapshots: list[Snapshot], gaps: Sequence[Gap], settings: RestoreSettings, now: datetime
) -> RestoreWindow:
    """Return the window that snapshots and WAL provide. It ends now, because the volume has the newest WAL."""
    earliest = min((snapshot.taken_at for snapshot in rollable(snapshots)), default=None)
    open_gap = next((gap for gap in gaps if gap.ends_at is None), None)
    latest = now if open_gap is None else open_gap.begins_at
    steps = clock_steps(rollable(snapshots))
    return RestoreWindow(earliest, None if earliest is None else latest, snapshots, gaps, settings, steps)


def check_gaps(gaps: Sequence[Gap], target: datetime) -> None:
    """Raise Invalid when a target is in a gap, with the nearest restorable times."""
    for gap in gaps:
        if gap.contains(target):
            after = "" if gap.ends_at is None else f" until {rfc3339(gap.ends_at)}"
            raise Invalid(
                "OUTSIDE_RESTORE_WINDOW",
                f"target_time {rfc3339(target)} is in a gap of the restore window,"
                f" which reaches from {rfc3339(gap.begins_at)}{after}: {gap.reason}",
                "Choose a time before or after the gap.",
            )


def settings_of(service_settings: Mapping[str, Any], defaults: RestoreSettings) -> RestoreSettings:
    """Return the settings of a service: its own, and the installation's for the rest."""
    return replace(defaults, **own_settings(service_settings))


def own_settings(service_settings: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the settings of the service itself, by name."""
    own: Mapping[str, int] = service_settings.get(_KEY, {})
    return own


def with_settings(
    service_settings: Mapping[str, Any], defaults: RestoreSettings, changes: Mapping[str, int | None]
) -> dict[str, Any]:
    """Return a service's settings with some changed; None takes the installation's. Raises Invalid."""
    for name, value in changes.items():
        low, high = BOUNDS[name]
        if value is not None and not low <= value <= high:
            raise Invalid("INVALID_FIELD", f"{name} must be between {low} and {high} (got {value})")
    wanted = replace(
        settings_of(service_settings, defaults),
        **{name: getattr(defaults, name) if value is None else value for name, value in changes.items()},
    )
    own = {name: value for name, value in asdict(wanted).items() if value != getattr(defaults, name)}
    return {**service_settings, _KEY: own}
