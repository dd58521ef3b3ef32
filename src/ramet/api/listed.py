"""Services as the list shows them: encoded once for each state, and the metrics, which change more often, apart."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from ramet.api.shapes import metrics_shape, service_shape
from ramet.model import service as model
from ramet.model.cursor import cursor_of
from ramet.model.labels import LabelFilter
from ramet.model.metrics import Usage
from ramet.model.service import shown_status
from ramet.model.status import Status

_ENCODER = msgspec.json.Encoder()


class ListedService(NamedTuple):
    """A service as JSON up to its metrics, its cursor, what label filters look at, and whether it is paused."""

    head: bytes
    cursor: str
    labels: Mapping[str, str]
    is_paused: bool

    def is_accepted(self, filters: Sequence[LabelFilter]) -> bool:
        """Tell whether all filters accept it."""
        return all(each.accepts(self.labels) for each in filters)


def listed_service(service: model.Service) -> ListedService:
    """Return a service as the list shows it."""
    is_paused = shown_status(service) is Status.PAUSED
    head = _ENCODER.encode(service_shape(service)).removesuffix(b"}")
    return ListedService(head, cursor_of(service.created_at, service.id), service.labels, is_paused)


def encoded_list(found: Sequence[tuple[ListedService, Usage | None]]) -> bytes:
    """Return services with what they use as a JSON array. It is megabytes, and copied once."""
    pieces = [piece for each, usage in found for piece in (b",", each.head, _tail(usage, each.is_paused))]
    return b"".join((b"[", *pieces[1:], b"]"))


@lru_cache(maxsize=20_000)
def _tail(usage: Usage | None, is_paused: bool) -> bytes:
    """Return a service from its metrics, which are its last property, to its end."""
    metrics = metrics_shape(usage, is_paused=is_paused)
    return b"}" if metrics is None else b',"metrics":%b}' % _ENCODER.encode(metrics)
