"""The lineage of a project as a picture: which service was forked from which, when, and at which point in time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ramet.console.views.time_scale import TimeScale
from ramet.model.fork import ForkStrategy, parse_target_time
from ramet.model.lineage import TreeRow, tree_rows
from ramet.model.service import Origin, Service

ROW_HEIGHT = 52
SPANS = ((None, "all"), (30 * 86_400, "30 days"), (7 * 86_400, "week"), (86_400, "day"), (3600, "hour"))
_LEFT_EDGE = 1.5
_RIGHT_EDGE = 98.0


@dataclass(frozen=True)
class Node:
    """A service in the picture, or a deleted parent (`service` is None). `x_…` are percent of the picture's width.

    `x_data` is the time whose data a fork has, `x_created` when it was created; both are at the left edge if that is
    before the time shown, and then `shows_data` is false. Rows count from 0.
    """

    depth: int
    row: int
    name: str
    service: Service | None
    origin: Origin | None = None
    data_as_of: datetime | None = None
    x_created: float = _LEFT_EDGE
    x_data: float | None = None
    shows_data: bool = False
    parent_row: int | None = None

    @property
    def y(self) -> float:
        """The middle of its row."""
        return (self.row + 0.5) * ROW_HEIGHT

    @property
    def parent_y(self) -> float | None:
        """The middle of its parent's row."""
        return None if self.parent_row is None else (self.parent_row + 0.5) * ROW_HEIGHT


def data_as_of(service: Service) -> datetime | None:
    """Return the time whose data a fork has; None for a service that is not a fork."""
    origin = service.origin
    if origin is None:
        return None
    if origin.strategy == ForkStrategy.PITR and origin.target_time is not None:
        return parse_target_time(origin.target_time)
    return origin.data_time or service.created_at


def with_ancestors(services: Sequence[Service], found: Sequence[Service]) -> list[Service]:
    """Return those of `services` that were found, with their ancestors."""
    by_id = {service.id: service for service in services}
    kept: set[str] = set()
    for service in found:
        at: Service | None = service
        while at is not None and at.id not in kept:
            kept.add(at.id)
            at = None if at.origin is None else by_id.get(at.origin.service_id)
    return [service for service in services if service.id in kept]


def scale_of(services: Sequence[Service], now: datetime, span_seconds: int | None) -> TimeScale:
    """Return the scale from the first time of services, or the last `span_seconds`, until now."""
    times = [at for service in services for at in (service.created_at, data_as_of(service)) if at is not None]
    earliest = min(times, default=now)
    if span_seconds is not None:
        earliest = max(earliest, now - timedelta(seconds=span_seconds))
    return TimeScale(earliest, now, _LEFT_EDGE, _RIGHT_EDGE)


def spans_of(whole: TimeScale, span_seconds: int | None) -> Sequence[tuple[int | None, str]]:
    """Return the periods to choose from: those that are shorter than the whole, and the one shown."""
    seconds = (whole.latest - whole.earliest).total_seconds()
    return [span for span in SPANS if span[0] is None or span[0] < seconds or span[0] == span_seconds]


def tree(services: Sequence[Service], scale: TimeScale) -> list[Node]:
    """Return the nodes of services and of deleted parents, parents before their forks, older before younger."""
    known = {service.id for service in services}
    items: list[Service | Origin] = []
    for service in services:
        if service.origin is not None and service.origin.service_id not in known:
            known.add(service.origin.service_id)
            items.append(service.origin)
        items.append(service)
    return [_node(number, row, scale) for number, row in enumerate(tree_rows(items, _id_of, _parent_of))]


def renumbered(nodes: Sequence[Node]) -> list[Node]:
    """Return consecutive nodes of a tree with their rows counted from 0; parents before the first have no row."""
    first = nodes[0].row if nodes else 0
    rows = [None if one.parent_row is None or one.parent_row < first else one.parent_row - first for one in nodes]
    return [replace(one, row=one.row - first, parent_row=row) for one, row in zip(nodes, rows, strict=True)]


def _id_of(item: Service | Origin) -> str:
    return item.id if isinstance(item, Service) else item.service_id


def _parent_of(item: Service | Origin) -> str | None:
    return item.origin.service_id if isinstance(item, Service) and item.origin is not None else None


def _node(number: int, row: TreeRow[Service | Origin], scale: TimeScale) -> Node:
    service = row.item
    if not isinstance(service, Service):
        return Node(row.depth, number, service.name, None)
    at = data_as_of(service)
    return Node(
        row.depth,
        number,
        service.name,
        service,
        service.origin,
        at,
        scale.x(service.created_at),
        None if at is None else scale.x(at),
        at is not None and at >= scale.earliest,
        row.parent_row,
    )
