"""Forks as a tree in a flat list, for the picture of the console and the list of the command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class TreeRow(Generic[Item]):
    """An item in its tree. `parent_row` is the index of its parent's row, None for a root."""

    item: Item
    depth: int
    parent_row: int | None
    is_last: bool


def tree_rows(
    items: Sequence[Item], id_of: Callable[[Item], str], parent_of: Callable[[Item], str | None]
) -> list[TreeRow[Item]]:
    """Return items with each parent before its children, and siblings in their given order.

    An item whose parent is not among them is a root. Long chains of forks are no problem: there is no recursion.
    """
    known = {id_of(item) for item in items}
    children: dict[str | None, list[Item]] = {}
    for item in items:
        parent = parent_of(item)
        children.setdefault(parent if parent in known else None, []).append(item)
    rows: list[TreeRow[Item]] = []
    waiting = _rows(children.get(None, []), 0, None)
    while waiting:
        row = waiting.pop()
        rows.append(row)
        waiting += _rows(children.get(id_of(row.item), []), row.depth + 1, len(rows) - 1)
    return rows


def _rows(siblings: Sequence[Item], depth: int, parent_row: int | None) -> list[TreeRow[Item]]:
    """Return the rows of siblings, the first one last."""
    return [TreeRow(item, depth, parent_row, item is siblings[-1]) for item in reversed(siblings)]
