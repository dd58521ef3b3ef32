"""Services as the list shows them: encoded once for each state, and the metrics, which change more often, each time."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from ramet.api.shapes import metrics_shape, service_shape
from ramet.model import service as model
from ramet.model.labels import LabelFilter
from ramet.model.metrics import Usage
from ramet.model.service import shown_status
from ramet.model.status import Status

_ENCODER = msgspec.json.Encoder()


class ListedService(NamedTuple):
    """A service as JSON without metrics, what label filters look at, and whether metrics are shown."""

    content: bytes
    labels: Mapping[str, str]
    status: Status

    def is_accepted(self, filters: Sequence[LabelFilter]) -> bool:
        """Tell whether all filters accept it."""
        return all(each.accepts(self.labels) for each in filters)

    def with_usage(self, usage: Usage | None) -> msgspec.Raw:
        """Return the whole object; metrics are its last property."""
        metrics = _encoded(usage, self.status)
        if metrics is None:
            return msgspec.Raw(self.content)
        return msgspec.Raw(b'%b,"metrics":%b}' % (self.content[:-1], metrics))


@lru_cache(maxsize=20_000)
def _encoded(usage: Usage | None, status: Status) -> bytes | None:
    """Return metrics as JSON: they are measured every half minute, and listed more often."""
    metrics = metrics_shape(usage, status)
    return None if metrics is None else _ENCODER.encode(metrics)


def listed_service(service: model.Service) -> ListedService:
    """Return a service as the list shows it."""
    return ListedService(_ENCODER.encode(service_shape(service)), service.labels, shown_status(service))
