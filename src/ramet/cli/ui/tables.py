"""Tables for a terminal: which columns fit, and how wide each becomes. No text in a cell is ever read as markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

GAP = 3
# The columns that may become narrower: sentences wrap, and the start of a name says most of it.
_SENTENCES = frozenset({"reason", "error", "meaning", "value"})
_NAMES = frozenset({"service", "set", "name", "operation", "labels"})
_NARROWEST = {**dict.fromkeys(_SENTENCES, 24), **dict.fromkeys(_NAMES, 12)}
# A narrow terminal loses columns from the right; these stay longer, the last of them the longest.
_STAYING = (
    *("took", "begun", "endpoint", "reason", "error", "meaning", "id", "public key", "step"),
    *("operation", "name", "set", "service", "variable", "outcome", "status"),
)


@dataclass(frozen=True)
class Layout:
    """What a table shows in the room that it has: columns with their widths, and the columns that are left out."""

    widths: Mapping[str, int]
    left_out: tuple[str, ...] = ()


def lay_out(natural: Mapping[str, int], room: int | None) -> Layout:
    """Return the layout of columns with these natural widths in `room` cells; None has room for everything."""
    if room is None:
        return Layout(natural)
    kept = dict(natural)
    left_out: list[str] = []
    for column in _order_of_leaving(list(natural)):
        if _total({name: _narrowest(name, width) for name, width in kept.items()}) <= room:
            break
        left_out.append(column)
        del kept[column]
    return Layout(_squeezed(kept, room), tuple(name for name in natural if name in left_out))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], room: int | None) -> tuple[Table, Layout]:
    """Return the table and its layout."""
    natural = {
        column: max(cell_len(line) for cell in (column, *(row[place] for row in rows)) for line in _lines(cell))
        for place, column in enumerate(columns)
    }
    layout = lay_out(natural, room)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column, width in layout.widths.items():
        table.add_column(plain(column), no_wrap=column not in _SENTENCES, overflow="ellipsis", width=width)
    places = [columns.index(column) for column in layout.widths]
    for row in rows:
        table.add_row(*(plain(row[place]) for place in places))
    return table, layout


def plain(cell: str | Text) -> Text:
    """Return a cell that rich shows letter by letter: '[red]' in a name is four letters and two brackets."""
    return cell if isinstance(cell, Text) else Text(cell)


def _order_of_leaving(columns: Sequence[str]) -> list[str]:
    """Return all columns but the one that is never left out, the least important first."""
    others = [column for column in reversed(columns) if column not in _STAYING]
    return [*others, *(column for column in _STAYING if column in columns)][:-1]


def _narrowest(column: str, width: int) -> int:
    return min(width, _NARROWEST.get(column, width))


def _squeezed(widths: dict[str, int], room: int) -> dict[str, int]:
    """Return widths that fit, where elastic columns can make them fit: the widest gives first."""
    squeezed = dict(widths)
    while (excess := _total(squeezed) - room) > 0:
        elastic = [name for name, width in squeezed.items() if width > _narrowest(name, width)]
        if not elastic:
            break
        widest = max(elastic, key=lambda name: squeezed[name])
        squeezed[widest] = max(_NARROWEST[widest], squeezed[widest] - excess)
    return squeezed


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _lines(cell: str | Text) -> list[str]:
    return str(cell).splitlines() or [""]
