"""Long lists, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class ListPage(Generic[Row]):
    """A page of a list of `total` rows. `number`, `first` and `last` count from 1; without rows `first` is 0."""

    rows: Sequence[Row]
    number: int
    pages: int
    first: int
    last: int
    total: int


def paginate(rows: Sequence[Row], number: int, size: int) -> ListPage[Row]:
    """Return the page with this number, or the nearest one that exists."""
    pages = max(1, -(-len(rows) // size))
    number = min(max(1, number), pages)
    begin, end = (number - 1) * size, min(number * size, len(rows))
    return ListPage(rows[begin:end], number, pages, min(begin + 1, end), end, len(rows))
