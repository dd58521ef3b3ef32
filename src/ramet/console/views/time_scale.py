"""The horizontal axis of pictures over time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

_SHORTEST = timedelta(microseconds=1)


@dataclass(frozen=True)
class TimeScale:
    """Maps the time from `earliest` to `latest` to coordinates from `left` to `right`."""

    earliest: datetime
    latest: datetime
    left: float
    right: float

    def x(self, at: datetime) -> float:
        """Return the coordinate of a time; times outside the scale are at its ends."""
        share = (at - self.earliest) / max(self.latest - self.earliest, _SHORTEST)
        return round(self.left + (self.right - self.left) * min(1.0, max(0.0, share)), 2)
