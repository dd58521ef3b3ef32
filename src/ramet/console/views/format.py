"""Numbers, sizes and durations as text."""

from ramet.model.size import Size

_UNITS = ("B", "KB", "MB", "GB", "TB")


def bytes_text(count: float | None) -> str:
    """Return a size with a unit, three digits at most."""
    if count is None:
        return "–"
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 or count >= 10 else f"{count:.1f} {_UNITS[unit]}"


def seconds_text(seconds: float) -> str:
    """Return a duration with one or two units."""
    if round(seconds, 3) < 1:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{seconds / 3600:.1f} h"


def ago_text(seconds: float) -> str:
    """Return how long ago something happened, in the same words as console.js."""
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{max(0, int(seconds // unit))} {name} ago"
    return f"{int(seconds // 86_400)} d ago"


def size_text(size: Size) -> str:
    """Return a size in words."""
    if size.cpu_millis is None:
        return "shared"
    return f"{size.cpu_millis / 1000:g} CPU · {size.memory_gbs} GB"
