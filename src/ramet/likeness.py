"""What a person may have meant by a word that is unknown."""

from collections.abc import Iterable

_LONGEST = 64


def suggestion(wanted: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'name'? " with what is most like a word, or "" when nothing is."""
    import difflib  # for mistakes only

    alike = difflib.get_close_matches(wanted[:_LONGEST], known, n=1)
    return f"Did you mean {alike[0]!r}? " if alike else ""
