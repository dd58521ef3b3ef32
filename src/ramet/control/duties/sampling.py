"""Samples of the metrics of each service and read replica set."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ramet.backends.interface.values import Server
from ramet.control.duties.drills import rolls_forward
from ramet.control.duties.faults import Faults
from ramet.control.metrics import CURRENT, SAMPLE_EVERY
from ramet.control.plane import Plane
from ramet.control.subjects import servers_of
from ramet.model.archive import is_archived
from ramet.model.metrics import OF_REPLICAS, Sample, Usage, continued, is_continued, key_of, usage, with_label
from ramet.model.service import Service
from ramet.store import metrics, services

_AT_WORK_SECONDS = 0.2
_MOST_REMEMBERED = 10_000
_HIT, _READ, _RATIO = (
    key_of("ramet_blocks_total", source="cache"),
    key_of("ramet_blocks_total", source="disk"),
    key_of("ramet_cache_hit_ratio"),
)


@dataclass
class Sampling:
    """The duty. It remembers the counters of blocks that it read last."""

    plane: Plane
    _blocks: dict[str, tuple[float, float]] = field(default_factory=dict)
    _faults: Faults = field(default_factory=lambda: Faults("metrics"))

    def sample(self) -> None:
        """Measure what was not measured for half a minute, for a fifth of a second at most.

        The rest comes first in the next round: with very many services samples are taken less often, and nothing else
        on the host waits for them. What does not answer is asked again with all others, half a minute later.
        """
        if len(self._blocks) > _MOST_REMEMBERED:
            self._blocks.clear()  # servers that are gone; the ratio of the others is measured from the next sample on
        begun, now = time.monotonic(), self.plane.clock()
        with self.plane.store.read() as tx:
            due = metrics.due_subjects(tx, now, SAMPLE_EVERY)
        taken: dict[str, Sample] = {}
        for subject in due:
            with self.plane.store.read() as tx:
                found = servers_of(tx, subject)
                service = services.get_service(tx, subject)
            taken[subject] = Sample(now, {})
            with self._faults.contained(subject):
                taken[subject] = self._sample(subject, found, service)
            if time.monotonic() - begun > _AT_WORK_SECONDS:
                break
        if taken:
            self._record(taken, now)

    def _sample(self, subject: str, found: list[Server], service: Service | None) -> Sample:
        now = self.plane.clock()
        ages = {} if service is None else _ages(self.plane, service, now)
        return Sample(now, {**self._measured(subject, found), **ages, **_behind_source(service)})

    def _measured(self, subject: str, found: list[Server]) -> Mapping[str, float]:
        """Return what is measured of servers, with the number of its node on each value of a replica set's."""
        values: dict[str, float] = {}
        for number, server in enumerate(found):
            measured = self.plane.backend.host.measure(server)
            if measured is None:
                self._blocks.pop(server.service_id, None)
                continue
            whole = self._with_ratio(server.service_id, measured)
            if server.primary is None:  # also where it is in recovery: then it follows a database elsewhere
                own = {key: n for key, n in whole.items() if key not in OF_REPLICAS}
            else:
                own = {with_label(key, "node", str(number)): n for key, n in whole.items()}
            values |= self._continued(subject, own)
        return values

    def _continued(self, subject: str, own: Mapping[str, float]) -> Mapping[str, float]:
        """Return what was measured of a server, with counters that go on from its last sample."""
        key = next(filter(is_continued, own), None)
        if key is None:
            return own
        with self.plane.store.read() as tx:
            before = metrics.last_sample_with(tx, subject, key)
        return own if before is None else continued(own, before.values)

    def _record(self, taken: Mapping[str, Sample], now: datetime) -> None:
        usages: dict[str, Usage] = {}
        with self.plane.store.read() as tx:
            for subject, sample in taken.items():
                before = metrics.last_sample(tx, subject, now - CURRENT)
                usages[subject] = usage([sample] if before is None else [before, sample])
        with self.plane.store.write(durable=False, patient=True) as tx:
            metrics.insert_samples(tx, {subject: sample for subject, sample in taken.items() if sample.values})
            metrics.put_usage(tx, usages, now)

    def _with_ratio(self, service_id: str, measured: Mapping[str, float]) -> Mapping[str, float]:
        """Return the values with the share of blocks that were found in the cache since the sample before."""
        if _HIT not in measured or _READ not in measured:
            return measured
        hit_before, read_before = self._blocks.get(service_id, (measured[_HIT], measured[_READ]))
        self._blocks[service_id] = (measured[_HIT], measured[_READ])
        hit, read = measured[_HIT] - hit_before, measured[_READ] - read_before
        return {**measured, _RATIO: hit / (hit + read)} if hit >= 0 and read >= 0 and hit + read > 0 else measured


def _ages(plane: Plane, service: Service, now: datetime) -> Mapping[str, float]:
    """Return how old is what the off-host archive has, and what restore drills have recovered, in seconds.

    Of a service that no drill has recovered nothing has been since it was ready.
    """
    known: dict[str, datetime | None] = {}
    if rolls_forward(plane):
        known["ramet_restore_verified_age_seconds"] = service.last_verified_at or service.ready_at
    if is_archived(service) and plane.backend.archive.url() is not None:
        known["ramet_archive_lag_seconds"] = service.archived_until
        known["ramet_archive_verified_age_seconds"] = service.archive_verified_at
    return {key_of(name): max(0.0, (now - at).total_seconds()) for name, at in known.items() if at is not None}


def _behind_source(service: Service | None) -> Mapping[str, float]:
    """Return how far a service is behind the database elsewhere that it follows."""
    following = None if service is None else service.following
    if following is None:
        return {}
    known = {"ramet_source_lag_bytes": following.lag_bytes, "ramet_source_lag_seconds": following.lag_seconds}
    return {key_of(name): float(value) for name, value in known.items() if value is not None}
