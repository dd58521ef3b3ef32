"""When a service falls asleep: after how long without a client."""

from ramet.errors import Invalid

LEAST_SECONDS = 5
MOST_SECONDS = 30 * 86_400


def check_sleep_after(seconds: int | None, name: str = "sleep_after_seconds") -> int | None:
    """Return after how long a service falls asleep; None: never. Raises Invalid when that is too short or too long."""
    if seconds is not None and not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise Invalid(
            f"INVALID_{name.upper()}",
            f"{name} must be between {LEAST_SECONDS} and {MOST_SECONDS} (got {seconds})",
        )
    return seconds
