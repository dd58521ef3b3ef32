"""Tables for a terminal: which columns fit, and how wide each is. Text in a cell is never read as markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from ramet.cli.ui.printable import printable

GAP = 3
# These columns may become narrower: sentences wrap, and names are cut at the end.
_SENTENCES = frozenset({"reason", "error", "meaning", "value"})
_NAMES = frozenset({"service", "set", "name", "operation", "labels"})
_NARROWEST = {**dict.fromkeys(_SENTENCES, 24), **dict.fromkeys(_NAMES, 12)}
# A narrow terminal drops columns from the right; these are dropped last, from left to right.
_DROPPED_LAST = (
    *("space", "took", "begun", "endpoint", "reason", "error", "meaning", "id", "public key", "step"),
    *("own", "operation", "name", "set", "service", "variable", "revoked", "result", "outcome", "status"),
)


@dataclass(frozen=True)
class Layout:
    """The columns that a table shows, with their widths, and the columns that it does not show."""

    widths: Mapping[str, int]
    left_out: tuple[str, ...] = ()


def lay_out(natural: Mapping[str, int], room: int | None) -> Layout:
    """Return the layout of columns with these natural widths in `room` cells; None means no limit."""
    if room is None:
        return Layout(natural)
    kept = dict(natural)
    left_out: list[str] = []
    for column in _drop_order(list(natural)):
        if _total({name: _narrowest(name, width) for name, width in kept.items()}) <= room:
            break
        left_out.append(column)
        del kept[column]
    return Layout(_squeezed(kept, room), tuple(name for name in natural if name in left_out))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], room: int | None) -> tuple[Table, Layout]:
    """Return the table and its layout."""
    rows = [[plain(cell) for cell in row] for row in rows]
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
        table.add_row(*(row[place] for place in places))
    return table, layout


def plain(cell: str | Text) -> Text:
    """Return a cell that rich prints unchanged, without control characters; '[red]' in a name is no markup."""
    text = printable(str(cell))
    if not isinstance(cell, Text):
        return Text(text)
    return cell if text == cell.plain else Text(text, style=cell.style)


def _drop_order(columns: Sequence[str]) -> list[str]:
    """Return all columns except the most important one, the least important first."""
    others = [column for column in reversed(columns) if column not in _DROPPED_LAST]
    return [*others, *(column for column in _DROPPED_LAST if column in columns)][:-1]


def _narrowest(column: str, width: int) -> int:
    return min(width, _NARROWEST.get(column, width))


def _squeezed(widths: dict[str, int], room: int) -> dict[str, int]:
    """Return widths that fit, if columns that may become narrower allow it; the widest is reduced first."""
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
