"""Identifiers: ten characters of a-z and 0-9, as existing clients expect, and random."""

import re
import secrets
import string

_ALPHABET = string.ascii_lowercase + string.digits
_PATTERN = re.compile(r"[a-z0-9]{10}")


def new_id() -> str:
    """Return a fresh identifier (51 bits of randomness); its first character is a letter."""
    return secrets.choice(string.ascii_lowercase) + "".join(secrets.choice(_ALPHABET) for _ in range(9))


def is_id(text: str) -> bool:
    """Tell whether `text` has the form of an identifier."""
    return _PATTERN.fullmatch(text) is not None
