"""Snapshots on schedule."""

import time
from dataclasses import dataclass, field
from datetime import timedelta

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.restore import settings_in_force, written_bytes
from ramet.control.subjects import serving_services
from ramet.model.procedures import ProcedureName
from ramet.model.restore_window import is_sparing
from ramet.model.service import Service, is_standby
from ramet.model.snapshot import Snapshot, SnapshotKind, newest
from ramet.procedures.postponed import next_snapshot_at, time_until_retry
from ramet.procedures.servers import submit_snapshot
from ramet.store import operations, services, snapshots

_OLD_ENOUGH_SECONDS = 60
_CLOCK_STEP = timedelta(seconds=2)


@dataclass
class ScheduledSnapshots:
    """The duty. It remembers how much WAL each service had written when it last ran."""

    plane: Plane
    _written: dict[str, int] = field(default_factory=dict)
    _written_before: dict[str, int] = field(default_factory=dict)
    _clock_ahead: float | None = None
    _clock_went_back: bool = False
    _known_before: dict[str, frozenset[str]] = field(default_factory=dict)
    _faults: Faults = field(default_factory=lambda: Faults("snapshots"))

    def take_due(self) -> None:
        """Submit a snapshot of each service for which one is due: by time, by WAL, or because writing has stopped.

        After one that took long or failed, the next one is due later (ramet.procedures.postponed).
        None while the storage is nearly full: a snapshot would keep what tenants drop to make room. None at all where
        the storage takes no snapshots.
        """
        if self.plane.backend.copies.are_needed():
            return
        self._written_before, self._written = self._written, {}
        self._clock_went_back = self._has_clock_gone_back()
        if self._clock_went_back:
            self._known_before.clear()
        for service in serving_services(self.plane.store):
            if service.down_reason is None and service.storage_warning is None:
                with self._faults.contained(service.id):
                    if self._is_due(service):
                        submit_scheduled(self.plane, service.id)

    def _is_due(self, service: Service) -> bool:
        with self.plane.store.read() as tx:
            known = snapshots.list_snapshots(tx, service.id)
        last = newest(known)
        if last is None:
            return not self._awaits_retry(service, None)
        occurs_again, written = self._occurs_again(service, known, last), written_bytes(self.plane, service, last)
        if written is None or (written == 0 and is_standby(service)):
            return False  # a base backup of a standby that has replayed nothing since is the same as the last one
        if occurs_again:
            # The times from here on occur a second time: they get their own base backup.
            return not self._awaits_retry(service, last)
        if not written:
            return False
        self._written[service.id] = written
        return self._is_reason_enough(service, last, written) and not self._is_postponed(service, last)

    def _occurs_again(self, service: Service, known: list[Snapshot], last: Snapshot) -> bool:
        """Tell whether the clock was set back since the last snapshot, now or while no process ran.

        It counts until there is another one, and no longer: the host of a server may have a clock that is ahead for
        good, and the other one need not be the last by the WAL where nothing was written.
        """
        ids = frozenset(snapshot.id for snapshot in known)
        if self._clock_went_back or last.taken_at > self.plane.clock() + _CLOCK_STEP:
            self._known_before.setdefault(service.id, ids)
        return ids <= self._known_before.get(service.id, frozenset())

    def _is_reason_enough(self, service: Service, last: Snapshot, written: int) -> bool:
        due = settings_in_force(self.plane, service, last)
        age_seconds = (self.plane.clock() - last.taken_at).total_seconds()
        if written >= due.snapshot_wal_bytes or age_seconds >= due.snapshot_interval_seconds:
            return True
        has_stopped_writing = self._written_before.get(service.id) == written and age_seconds >= _OLD_ENOUGH_SECONDS
        return has_stopped_writing and not is_sparing(self.plane.backend.host.volume_type(), service.settings)

    def _is_postponed(self, service: Service, last: Snapshot) -> bool:
        now = self.plane.clock()
        with self.plane.store.read() as tx:
            earliest = next_snapshot_at(tx, last)
            is_resting = earliest is not None and now < earliest
            return is_resting or bool(time_until_retry(tx, service.id, last, now))

    def _awaits_retry(self, service: Service, last: Snapshot | None) -> bool:
        with self.plane.store.read() as tx:
            return bool(time_until_retry(tx, service.id, last, self.plane.clock()))

    def _has_clock_gone_back(self) -> bool:
        """Tell whether the clock was set back since the last call."""
        ahead, before = self.plane.clock().timestamp() - time.monotonic(), self._clock_ahead
        self._clock_ahead = ahead
        return before is not None and ahead < before - _CLOCK_STEP.total_seconds()


def submit_scheduled(plane: Plane, service_id: str) -> None:
    """Submit a snapshot of a service unless one is under way, or it is deleted or changed by now.

    A snapshot that is taken while its data is replaced would stay when that is undone.
    """
    with plane.change() as tx:
        service = services.get_service(tx, service_id, lock=True)
        is_changing = service is None or service.deleted_at is not None or service.activity is not None
        if is_changing or operations.under_way(tx, service_id, ProcedureName.SNAPSHOT):
            return
        submit_snapshot(tx, service_id, SnapshotKind.SCHEDULED)
