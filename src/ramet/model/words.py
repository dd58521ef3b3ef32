"""Numbers and names in sentences."""

from collections.abc import Sequence

_MOST_NAMES = 20


def listed(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Return names in a sentence, the first ones where they are more than `most`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
