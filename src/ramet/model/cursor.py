"""Pages of long lists: how many items they have, and cursors, positions that clients send back without reading them."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from ramet.errors import Invalid

PAGE = 50
LARGEST_PAGE = 500
_Position = TypeVar("_Position")
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Page(Generic[_Item]):
    """Items of a list, newest first. `cursor` asks for the next page; None on the last one."""

    items: list[_Item]
    cursor: str | None


def check_limit(limit: int) -> None:
    """Raise Invalid when a page cannot have so many items."""
    if not 1 <= limit <= LARGEST_PAGE:
        message = f"limit must be between 1 and {LARGEST_PAGE} (got {limit})"
        raise Invalid("INVALID_LIMIT", message, "Leave it out, or ask for further pages.")


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


def page_of(found: list[_Item], limit: int, cursor_of_item: Callable[[_Item], str]) -> Page[_Item]:
    """Return the page of the first `limit` items; another page follows when there are more."""
    return Page(found[:limit], cursor_of_item(found[limit - 1]) if len(found) > limit else None)


def cursor_of(at: datetime, item_id: str) -> str:
    """Return the cursor of an item in a list that is ordered by time."""
    return encode_cursor(f"{at.isoformat()} {item_id}")


def sequence_number(text: str) -> int:
    """Return the position of a list that is numbered. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError
    return int(text)


def time_and_id(text: str) -> tuple[datetime, str]:
    """Return the position of a list that is ordered by time. Raises ValueError."""
    at, item_id = text.split(" ")
    if not (item_id.isascii() and item_id.isprintable()):
        raise ValueError
    return datetime.fromisoformat(at).astimezone(UTC), item_id
