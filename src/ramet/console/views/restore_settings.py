"""The settings of a restore window as a form in days, minutes and MB; an empty field means the default."""

from collections.abc import Mapping
from dataclasses import dataclass

from ramet.console.views.forms import InvalidField
from ramet.control.plane import Plane
from ramet.model.restore_window import BOUNDS, RestoreSettings, own_settings
from ramet.model.service import Service

_DIGITS = 7  # of a number of MB, from which the bytes follow


@dataclass(frozen=True)
class Amount:
    """A setting as it is entered: in multiples of `unit_size`."""

    name: str
    title: str
    unit: str
    unit_size: int

    @property
    def bounds(self) -> tuple[str, str]:
        """The least and the greatest value that can be entered."""
        low, high = BOUNDS[self.name]
        return f"{low / self.unit_size:g}", f"{high / self.unit_size:.0f}"

    def shown(self, value: int, digits: int = _DIGITS) -> str:
        """Return a value as it would be entered, or in a sentence with fewer digits after the point."""
        return f"{value / self.unit_size:.{digits}f}".rstrip("0").rstrip(".")


AMOUNTS = (
    Amount("window_days", "Restore window", "days", 1),
    Amount("snapshot_interval_seconds", "Take a snapshot every", "minutes", 60),
    Amount("snapshot_wal_bytes", "Take a snapshot after", "MB", 1024**2),
)


def typed_settings(service: Service) -> dict[str, str]:
    """Return the service's own settings, as they would be entered."""
    own = own_settings(service.settings)
    return {amount.name: amount.shown(own[amount.name]) for amount in AMOUNTS if amount.name in own}


def default_settings(plane: Plane) -> dict[str, str]:
    """Return the defaults, as they would be entered."""
    return {amount.name: amount.shown(getattr(plane.restore, amount.name)) for amount in AMOUNTS}


def settings_text(settings: RestoreSettings, *, is_sparing: bool) -> str:
    """Return settings in a sentence or two; see ramet.model.restore_window.is_sparing."""
    days, minutes, megabytes = (amount.shown(getattr(settings, amount.name), 2) for amount in AMOUNTS)
    kept = "1 day" if days == "1" else f"{days} days"
    every = "minute" if minutes == "1" else f"{minutes} minutes"
    if settings.snapshot_interval_seconds < 60:
        every = f"{settings.snapshot_interval_seconds} seconds"
    last = "." if is_sparing else ", and once more when the writes stop."
    return (
        f"Snapshots and WAL are kept for {kept}. While the service is written to, a snapshot is taken every {every} or"
        f" after {megabytes} MB of WAL{last}"
    )


def entered_settings(values: Mapping[str, str]) -> tuple[dict[str, int | None]]:
    """Return the entered values as the changes of settings. Raises InvalidField."""
    return ({amount.name: _value(amount, values.get(amount.name, "")) for amount in AMOUNTS},)


def _value(amount: Amount, text: str) -> int | None:
    if not text:
        return None
    low, high = BOUNDS[amount.name]
    try:
        exact = float(text) * amount.unit_size
        value = round(exact)
    except (ValueError, OverflowError):
        exact = value = low - 1
    if not low <= value <= high or (amount.unit_size == 1 and exact != value):
        least, most = amount.bounds
        whole = "a whole number" if amount.unit_size == 1 else "a number"
        raise InvalidField(amount.name, f"Enter {whole} from {least} to {most} {amount.unit}, or leave this empty")
    return value
