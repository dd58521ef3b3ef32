"""The restore window of a service: the times that it can be restored to, the gaps in between, and its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ramet.errors import Invalid
from ramet.model.archive import ArchiveSpan
from ramet.model.gaps import Gap
from ramet.model.snapshot import ClockStep, Snapshot, clock_steps, rollable

_KEY = "restore"
_DAY_SECONDS = 86_400
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


def copies_all_data(volume_type: str) -> bool:
    """Tell whether forks and snapshots share nothing with the data on storage of a type, which is a driver's name."""
    return volume_type == "copy"


def usual_settings(volume_type: str) -> RestoreSettings:
    """Return what holds where nothing is set."""
    usual = RestoreSettings()
    return replace(usual, snapshot_interval_seconds=_DAY_SECONDS) if copies_all_data(volume_type) else usual


def defaults_for(defaults: RestoreSettings, volume_type: str, last: Snapshot | None) -> RestoreSettings:
    """Return the defaults of a service whose newest snapshot is `last`.

    Where a snapshot is a copy of all data, the next one is due after as much WAL: recovery from the last one then reads
    at most twice the data, and snapshots take at most a fixed share of what the WAL takes.
    """
    if not copies_all_data(volume_type) or last is None:
        return defaults
    return replace(defaults, snapshot_wal_bytes=max(defaults.snapshot_wal_bytes, last.size_bytes))


def is_sparing(volume_type: str, service_settings: Mapping[str, Any]) -> bool:
    """Tell whether only snapshots that save much WAL replay are taken and kept: each is a copy of all data.

    Not where the service has its own settings of when snapshots are due.
    """
    return copies_all_data(volume_type) and own_settings(service_settings).keys() <= {"window_days"}


@dataclass(frozen=True)
class RestoreWindow:
    """A service can be restored to times from `earliest` to `latest`, except those in gaps; None: to none yet.

    `archive` is the part of it that the off-host archive holds. Before `next_snapshot_at` no snapshot is taken on
    schedule, because the last one took long or failed; None: one is taken as soon as the settings say so.
    A time that occurs twice, because the clock of the server was set back, means its last occurrence.
    """

    earliest: datetime | None
    latest: datetime | None
    snapshots: Sequence[Snapshot]
    gaps: Sequence[Gap]
    settings: RestoreSettings
    clock_steps: Sequence[ClockStep] = ()
    archive: ArchiveSpan | None = None
    next_snapshot_at: datetime | None = None


def restore_window(
    snapshots: list[Snapshot],
    gaps: Sequence[Gap],
    settings: RestoreSettings,
    now: datetime,
    archive: ArchiveSpan | None = None,
) -> RestoreWindow:
    """Return the window that snapshots and WAL provide, and the off-host archive.

    With snapshots it ends now, because the volume has the newest WAL.
    """
    steps = clock_steps(rollable(snapshots))
    begins = [snapshot.taken_at for snapshot in rollable(snapshots)]
    local = min(begins, default=None)
    earliest = min(begins if archive is None else [*begins, archive.earliest], default=None)
    left = window_gaps(local, gaps, archive)
    if local is None:
        latest = None if archive is None else archive.latest
    else:
        open_gap = next((gap for gap in left if gap.ends_at is None), None)
        latest = now if open_gap is None else open_gap.begins_at
    return RestoreWindow(earliest, latest, snapshots, left, settings, steps, archive)


def window_gaps(local: datetime | None, gaps: Sequence[Gap], archive: ArchiveSpan | None) -> list[Gap]:
    """Return the gaps of a window: those of the archive before `local`, where snapshots begin, and what it leaves.

    `gaps` are those of the local WAL.
    """
    if archive is None:
        return list(gaps)
    found = [gap if local is None else gap.until(local) for gap in archive.gaps]
    found = [gap for gap in found if gap.ends_at is None or gap.begins_at < gap.ends_at]
    if local is not None and archive.latest < local:
        found.append(Gap(archive.latest, local, "neither a snapshot nor the off-host archive has these times"))
    return [*found, *(rest for gap in gaps for rest in archive.rest_of(gap))]


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
