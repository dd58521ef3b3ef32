"""The lineage of a project: who was forked from whom, when, and as of which moment. Pure layout of tree and picture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ramet.model.fork import ForkStrategy, parse_target_time
from ramet.model.service import Origin, Service

ROW_HEIGHT = 52
PAGE_SIZE = 100
_SHORTEST = timedelta(seconds=1)
_RIGHT_EDGE = 98.0
_LEFT_EDGE = 1.5


@dataclass(frozen=True)
class Node:
    """A service in the tree, or a parent that is gone (`service` is None). `x_…` are percent of the picture's width.

    `x_data` is the moment that a fork holds, `x_created` when it was made; `parent_row` counts rows from 0.
    """

    depth: int
    row: int
    name: str
    service: Service | None
    origin: Origin | None = None
    data_as_of: datetime | None = None
    x_created: float = _LEFT_EDGE
    x_data: float | None = None
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
    """Return the moment whose data a fork holds; None for a service that is no fork."""
    origin = service.origin
    if origin is None:
        return None
    if origin.strategy == ForkStrategy.PITR and origin.target_time is not None:
        return parse_target_time(origin.target_time)
    return origin.data_time or service.created_at


def page_of(nodes: Sequence[Node], number: int) -> list[Node]:
    """Return a page of the tree, counted from 1, with its rows counted anew; what lies outside has no row."""
    first = (number - 1) * PAGE_SIZE
    part = nodes[first : first + PAGE_SIZE]
    rows = [None if one.parent_row is None or one.parent_row < first else one.parent_row - first for one in part]
    return [replace(one, row=one.row - first, parent_row=row) for one, row in zip(part, rows, strict=True)]


def with_ancestors(services: Sequence[Service], found: Sequence[Service]) -> list[Service]:
    """Return some services with all that they came from, in the order of the whole."""
    by_id = {service.id: service for service in services}
    kept: set[str] = set()
    for service in found:
        at: Service | None = service
        while at is not None and at.id not in kept:
            kept.add(at.id)
            at = None if at.origin is None else by_id.get(at.origin.service_id)
    return [service for service in services if service.id in kept]


def tree(services: Sequence[Service], now: datetime) -> list[Node]:
    """Return all services in the order of the tree, parents before their forks, older before younger."""
    known = {service.id for service in services}
    children: dict[str, list[Service]] = {}
    roots: list[tuple[Service | None, str, str]] = []
    for service in services:
        origin = service.origin
        if origin is None:
            roots.append((service, service.id, service.name))
            continue
        if origin.service_id not in known and origin.service_id not in children:
            roots.append((None, origin.service_id, origin.name))
        children.setdefault(origin.service_id, []).append(service)
    layout = _Layout(children, _scale(services, now))
    for root, service_id, name in roots:
        layout.add(root, service_id, name)
    return layout.nodes


@dataclass(frozen=True)
class _Scale:
    earliest: datetime
    latest: datetime

    def x(self, at: datetime) -> float:
        share = (at - self.earliest) / max(self.latest - self.earliest, _SHORTEST)
        return round(_LEFT_EDGE + (_RIGHT_EDGE - _LEFT_EDGE) * min(1.0, max(0.0, share)), 2)


class _Layout:
    """Walks down the tree without recursion: a line of forks may be longer than the interpreter's stack."""

    def __init__(self, children: dict[str, list[Service]], scale: _Scale) -> None:
        self.nodes: list[Node] = []
        self._children = children
        self._scale = scale

    def add(self, root: Service | None, service_id: str, name: str) -> None:
        """Add a root and all that came from it."""
        waiting: list[tuple[Service | None, str, str, int, int | None]] = [(root, service_id, name, 0, None)]
        while waiting:
            service, its_id, its_name, depth, parent_row = waiting.pop()
            row = len(self.nodes)
            self.nodes.append(self._node(service, its_name, depth, parent_row))
            for child in reversed(self._children.get(its_id, [])):
                waiting.append((child, child.id, child.name, depth + 1, row))

    def _node(self, service: Service | None, name: str, depth: int, parent_row: int | None) -> Node:
        row = len(self.nodes)
        if service is None:
            return Node(depth, row, name, None)
        moment = data_as_of(service)
        return Node(
            depth,
            row,
            name,
            service,
            service.origin,
            moment,
            self._scale.x(service.created_at),
            None if moment is None else self._scale.x(moment),
            parent_row,
        )


def _scale(services: Sequence[Service], now: datetime) -> _Scale:
    moments = [
        moment for service in services for moment in (service.created_at, data_as_of(service)) if moment is not None
    ]
    return _Scale(min(moments, default=now), now)
