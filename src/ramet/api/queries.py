"""Reading query parameters, so that what is wrong is named like a field of a body."""

from ramet.errors import Invalid

_LONGEST = 9


def flag(name: str, text: str | None) -> bool:
    """Tell whether a parameter holds true; not sent, it is false. Raises Invalid."""
    if text not in (None, "true", "false"):
        raise Invalid("INVALID_PARAMETER", f"{name} must be true or false, not {text[:40]!r}", "Leave it out.")
    return text == "true"


def whole_number(name: str, text: str | None, default: int) -> int:
    """Return the number that a parameter holds, or the default when it was not sent. Raises Invalid."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        raise Invalid("INVALID_PARAMETER", f"{name} must be a whole number, not {text[:40]!r}", "Leave it out.")
    return int(text)
