"""What is said of something that is waited for: how far it is, and perhaps a warning, whose change is no progress."""

_WARNING = " Warning: "


def with_warning(progress: str, warning: str) -> str:
    """Return how far something is, with a warning if there is one, and none was said yet."""
    return f"{progress}{_WARNING}{warning}" if warning and _WARNING not in progress else progress


def without_warning(progress: str) -> str:
    """Return how far something is."""
    return progress.partition(_WARNING)[0]
