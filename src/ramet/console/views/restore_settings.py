"""The settings of a restore window as a form in the units of people: days, minutes, MB; left empty, the default."""

from collections.abc import Mapping
from dataclasses import dataclass

from ramet.console.views.forms import InvalidField
from ramet.control.plane import Plane
from ramet.control.restore import change_restore_settings
from ramet.model.service import Service
from ramet.model.window import BOUNDS, RestoreSettings, own_settings


@dataclass(frozen=True)
class Amount:
    """A setting as it is typed: in multiples of `unit_size`."""

    name: str
    title: str
    unit: str
    unit_size: int

    @property
    def bounds(self) -> tuple[str, str]:
        """The least and the most that can be typed."""
        low, high = BOUNDS[self.name]
        return f"{low / self.unit_size:g}", f"{high / self.unit_size:.0f}"

    def shown(self, value: int) -> str:
        """Return a value as it would be typed."""
        return f"{value / self.unit_size:g}" if value % self.unit_size else str(value // self.unit_size)


AMOUNTS = (
    Amount("window_days", "How far back", "days", 1),
    Amount("snapshot_interval_seconds", "A snapshot at least every", "minutes", 60),
    Amount("snapshot_wal_bytes", "And after so much was written", "MB", 1024**2),
)


def typed_settings(service: Service) -> dict[str, str]:
    """Return what a service has of its own, as it would be typed."""
    own = own_settings(service.settings)
    return {amount.name: amount.shown(own[amount.name]) for amount in AMOUNTS if amount.name in own}


def default_settings(plane: Plane) -> dict[str, str]:
    """Return what holds where nothing is typed."""
    return {amount.name: amount.shown(getattr(plane.restore, amount.name)) for amount in AMOUNTS}


def settings_text(settings: RestoreSettings) -> str:
    """Return what holds, in a sentence or two."""
    days, minutes, megabytes = (amount.shown(getattr(settings, amount.name)) for amount in AMOUNTS)
    kept = "1 day" if days == "1" else f"{days} days"
    every = "minute" if minutes == "1" else f"{minutes} minutes"
    if settings.snapshot_interval_seconds < 60:
        every = f"{settings.snapshot_interval_seconds} seconds"
    return (
        f"Kept for {kept}. While something is written, a snapshot is taken every {every}, or after {megabytes} MB;"
        " and one more when it comes to rest."
    )


def set_restore(plane: Plane, service: Service, values: Mapping[str, str]) -> None:
    """Change the settings of a service to what was typed. Raises InvalidField."""
    changes = {amount.name: _value(amount, values.get(amount.name, "")) for amount in AMOUNTS}
    change_restore_settings(plane, service.project_id, service.id, changes)


def _value(amount: Amount, text: str) -> int | None:
    if not text:
        return None
    low, high = BOUNDS[amount.name]
    try:
        exact = float(text) * amount.unit_size
        value = round(exact)
    except (ValueError, OverflowError):
        exact = value = low - 1
    if not low <= value <= high or exact != value:
        least, most = amount.bounds
        whole = "a whole number" if amount.unit_size == 1 else "a number"
        raise InvalidField(amount.name, f"This must be {whole} from {least} to {most} {amount.unit}, or empty")
    return value
