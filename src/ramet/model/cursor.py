"""Cursors of pages: a position as text that clients send back without reading it."""

import base64
from collections.abc import Callable
from typing import TypeVar

from ramet.errors import Invalid

_Position = TypeVar("_Position")


def encode_cursor(position: str) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, parse: Callable[[str], _Position]) -> _Position:
    """Return the position of a cursor; `parse` raises ValueError or OverflowError for a wrong one. Raises Invalid."""
    try:
        return parse(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())
    except (ValueError, OverflowError) as error:
        message = f"Invalid cursor {cursor[:64]!r}: use the cursor from a previous response"
        raise Invalid("INVALID_CURSOR", message, "Leave it out to get the first page.") from error
