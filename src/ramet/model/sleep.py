"""When a service falls asleep: after how long without a client."""

from ramet.model.life_span import check_seconds

LEAST_SECONDS = 5
MOST_SECONDS = 30 * 86_400


def check_sleep_after(seconds: int | None, name: str = "sleep_after_seconds") -> int | None:
    """Return after how long a service falls asleep; None: never. Raises Invalid when that is too short or too long."""
    return None if seconds is None else check_seconds(name, seconds, LEAST_SECONDS, MOST_SECONDS)
