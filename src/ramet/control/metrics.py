"""Metrics: samples that Ramet takes of each service, and what clients read of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ramet.backends.base import Backend
from ramet.control.control import Control
from ramet.model.metrics import SERIES, Function, Sample, Series, Usage, key_of, plan, series, usage
from ramet.procedures.servers import server_of
from ramet.store import metrics, services
from ramet.store.database import Store

SAMPLE_SECONDS = 30.0
FORGET_SECONDS = 3600.0
_CURRENT = timedelta(minutes=2)
_HIT, _READ, _RATIO = (
    key_of("ramet_blocks_total", source="cache"),
    key_of("ramet_blocks_total", source="disk"),
    key_of("ramet_cache_hit_ratio"),
)


@dataclass
class Metering:
    """The duties that take samples and forget old ones."""

    store: Store
    backend: Backend
    clock: Callable[[], datetime]
    _blocks: dict[str, tuple[float, float]] = field(default_factory=dict)

    def sample(self) -> None:
        """Measure every service that serves."""
        with self.store.read() as tx:
            known = services.all_live_services(tx)
        taken: dict[str, Sample] = {}
        for service in known:
            if service.born_at is not None and not service.paused:
                measured = self.backend.measure(server_of(service))
                if measured is not None:
                    taken[service.id] = Sample(self.clock(), self._with_ratio(service.id, measured))
        self._blocks = {service_id: blocks for service_id, blocks in self._blocks.items() if service_id in taken}
        with self.store.write() as tx:
            metrics.insert_samples(tx, taken)

    def forget(self) -> None:
        """Keep the samples within bounds."""
        with self.store.write() as tx:
            metrics.forget_old(tx, self.clock())

    def _with_ratio(self, service_id: str, measured: Mapping[str, float]) -> Mapping[str, float]:
        """Return the values with the share of blocks that were found in the cache since the sample before."""
        if _HIT not in measured or _READ not in measured:
            return measured
        hit_before, read_before = self._blocks.get(service_id, (measured[_HIT], measured[_READ]))
        self._blocks[service_id] = (measured[_HIT], measured[_READ])
        hit, read = measured[_HIT] - hit_before, measured[_READ] - read_before
        return {**measured, _RATIO: hit / (hit + read)} if hit >= 0 and read >= 0 and hit + read > 0 else measured


def available_series(control: Control, project_id: str, service_id: str) -> list[str]:
    """Return the names of all series."""
    control.get_service(project_id, service_id)
    return sorted(SERIES)


def read_series(
    control: Control,
    project_id: str,
    service_id: str,
    name: str,
    begin: datetime,
    end: datetime,
    bucket_seconds: int | None,
    function: Function | None,
    labels: Mapping[str, str],
) -> list[Series]:
    """Return the series that are asked for. Raises NotFound, Invalid."""
    query = plan(name, begin, end, bucket_seconds, function, labels)
    with control.store.read() as tx:
        service = control.find(tx, project_id, service_id)
        earlier = begin - timedelta(seconds=2 * SAMPLE_SECONDS)
        samples = metrics.list_samples(tx, service.id, earlier, end)
    return series(samples, query, role="primary")


def usage_now(control: Control, service_id: str) -> Usage | None:
    """Return what a service uses now, as far as its newest samples are of now."""
    with control.store.read() as tx:
        return usage(metrics.last_samples(tx, service_id, control.clock() - _CURRENT, 2))
