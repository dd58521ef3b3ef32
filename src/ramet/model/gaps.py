"""Gaps: times that a service cannot be restored to, though it can be restored to earlier and later ones."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ramet.errors import Invalid
from ramet.model.timestamps import rfc3339


@dataclass(frozen=True)
class Gap:
    """Times that cannot be restored to: after `begins_at` and before `ends_at`; None: until now."""

    begins_at: datetime
    ends_at: datetime | None
    reason: str

    def contains(self, time: datetime) -> bool:
        """Tell whether a time is in the gap; both ends can be restored to."""
        return self.begins_at < time and (self.ends_at is None or time < self.ends_at)

    def ends_after(self, time: datetime) -> bool:
        """Tell whether the gap ends after a time."""
        return self.ends_at is None or self.ends_at > time

    def until(self, time: datetime) -> "Gap":
        """Return the part of the gap before a time."""
        return replace(self, ends_at=time if self.ends_at is None else min(self.ends_at, time))


def check_gaps(gaps: Iterable[Gap], target: datetime) -> None:
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
