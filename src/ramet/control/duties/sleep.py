"""Services without clients fall asleep, and clients that wait wake theirs.

How long a service was idle is known to this process only: after its restart that counts from the beginning.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.sleep import LastUse, submit_sleep, wake
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from ramet.store import services

WAKING_SECONDS = 1.0
_AGAIN_SECONDS = 0.05
_LOOKS_PER_TIME = 10
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass
class _Idle:
    """What was seen of a service: its last session, since when, and when somebody looked last."""

    mark: str | None
    since: float
    looked_at: float


@dataclass
class FallingAsleep:
    """The duty that lets idle services fall asleep. `now` is the time that life spans go by."""

    plane: Plane
    now: Callable[[], datetime]
    _idle: dict[str, _Idle] = field(default_factory=dict)
    _faults: Faults = field(default_factory=lambda: Faults("sleep"))

    def tend(self) -> None:
        """Look for sessions where that is due, and submit that services fall asleep."""
        with self.plane.store.read() as tx:
            known = [each for each in services.that_may_sleep(tx) if status_of(each) is Status.READY]
        self._idle = {each.id: self._idle[each.id] for each in known if each.id in self._idle}
        for service in known:
            with self._faults.contained(service.id):
                self._tend_one(service, service.sleep_after_seconds or 0)

    def _tend_one(self, service: Service, seconds: int) -> None:
        now = time.monotonic()
        before = self._idle.get(service.id)
        if before is not None and now - before.looked_at < min(_LONGEST_PAUSE_SECONDS, seconds / _LOOKS_PER_TIME):
            return
        found = self.plane.backend.poolers.sessions(server_of(service))
        if found is None or found.count or before is None or before.mark != found.mark:
            self._idle[service.id] = _Idle(None if found is None else found.mark, now, now)
            return
        before.looked_at = now
        if now - before.since >= seconds:
            last = LastUse(self.now() - timedelta(seconds=now - before.since), found.mark)
            if submit_sleep(self.plane, service.id, last):
                self._idle.pop(service.id, None)


@dataclass(frozen=True)
class Waking:
    """The duty that opens endpoints again, and starts servers for clients that wait."""

    plane: Plane
    _faults: Faults = field(default_factory=lambda: Faults("waking"))

    def attend(self) -> None:
        """Wait for clients of services that sleep until the duty is due again."""
        deadline, endpoints = time.monotonic() + WAKING_SECONDS, self.plane.backend.endpoints
        opened = endpoints.list_open()  # before the rows are read: a service has its row before its endpoint
        with self.plane.store.read() as tx:
            may_sleep = services.that_may_sleep(tx)
            others = [services.get_service(tx, each) for each in {*opened} - {each.id for each in may_sleep}]
        self._close([each for each in others if each is not None])
        known = [each for each in may_sleep if each.ready_at is not None]
        if not known:
            return
        awake = [server_of(each) for each in known if not each.paused and each.activity is None]
        endpoints.keep(awake, [server_of(each) for each in known if each.asleep and each.activity is None])
        again: set[str] = set()
        while (left := deadline - time.monotonic()) > 0:
            found = endpoints.waiting(min(left, _AGAIN_SECONDS) if again else left)
            again = {service_id for service_id in {*again, *found} if self._waits(service_id)}

    def _close(self, others: Sequence[Service]) -> None:
        """Close the endpoints of services that may not sleep: one was opened again just as its service was deleted.

        Not of a service that an operation works on, which may be about to open or close its endpoint itself. Nor of one
        that is READY: where the store was restored from a backup of a time when it was always awake, its server listens
        on another port, and clients reach it through the endpoint alone.
        """
        for service in others:
            is_idle = service.activity is None and status_of(service) is not Status.READY
            if service.deleted_at is not None or service.failed_at is not None or is_idle:
                with self._faults.contained(service.id):
                    self.plane.backend.endpoints.close(service.id)

    def _waits(self, service_id: str) -> bool:
        """Wake a service; tell whether to try that again soon."""
        is_awake = True
        with self._faults.contained(service_id):
            is_awake = wake(self.plane, service_id)
        return not is_awake
