"""Text of servers and of their clients that may have control characters: a terminal would take these for commands."""

_KEPT = "\n\t"
_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in _KEPT}


def printable(text: str) -> str:
    r"""Return a text with control characters as \x1b and the like, except for the ends of lines and tabs."""
    return text.translate(_SHOWN)
