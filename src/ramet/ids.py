"""Identifiers: ten characters of a-z and 0-9, as existing clients expect, and random."""

import re

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ALPHABET = f"{_LETTERS}0123456789"


def new_id() -> str:
    """Return a fresh identifier (51 bits of randomness); its first character is a letter."""
    import secrets  # commands only check identifiers, and it is slow to import

    return secrets.choice(_LETTERS) + "".join(secrets.choice(_ALPHABET) for _ in range(9))


def is_id(text: str) -> bool:
    """Tell whether `text` has the form of an identifier."""
    return re.fullmatch(r"[a-z0-9]{10}", text) is not None
