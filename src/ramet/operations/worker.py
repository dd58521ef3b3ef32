"""Leases due operations and gives them to threads; renews the leases; wakes up at once when there is new work."""

import functools
import logging
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence

from ramet.errors import Unavailable
from ramet.model.status import OperationStatus
from ramet.operations.fifo import FifoListener, ring
from ramet.operations.listener import Listener
from ramet.operations.procedure import Procedure
from ramet.operations.runner import Observe, Runner
from ramet.store import operations
from ramet.store.database import Store
from ramet.store.due import Known
from ramet.store.operations import Operation

_log = logging.getLogger(__name__)
POLL_SECONDS = 0.5
_KEPT_FOR_SHORT = 2


class Worker:
    """Runs operations in `threads` threads. Its name is unique, for it marks the leases that are its own.

    In two of the threads, where it has more, no step begins that is `long`: what is short goes on beside.
    """

    def __init__(
        self,
        store: Store,
        procedures: Sequence[Procedure],
        threads: int = 8,
        name: str | None = None,
        lease_seconds: float = 30.0,
        observe: Observe = lambda _before, _after, _event: None,
        long: frozenset[str] = frozenset(),
    ) -> None:
        by_name = {procedure.name: procedure for procedure in procedures}
        unique = f"{name or socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._store = store
        self._runner = Runner(store, by_name, unique, lease_seconds, observe)
        self._known = _known(procedures, long)
        self._lease_seconds = lease_seconds
        self._free = threads
        self._most_long = max(1, threads - _KEPT_FOR_SHORT)
        self._held: set[str] = set()
        self._long: set[str] = set()
        self._unrecorded: set[str] = set()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._has_new = False
        self._stopping = threading.Event()
        self._leased: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._renew_at = 0.0
        self._reported: set[str] = set()
        self._threads = [threading.Thread(target=self._work, name=f"step-{n}", daemon=True) for n in range(threads)]
        self._leaser = threading.Thread(target=self._lease_until_stopped, name="leases", daemon=True)
        self._listener = (Listener if store.is_postgresql else FifoListener)(store, self.wake)

    def take_over(self) -> None:
        """End the leases of this host's earlier workers: the caller knows that none of them runs."""
        with self._store.write() as tx:
            count = operations.end_leases(tx, self._runner.worker.split(":")[0] + ":")
        if count:
            _log.info("%d operations of an earlier process continue", count)

    def start(self) -> None:
        """Begin to run operations, in separate threads."""
        for thread in (self._leaser, *self._threads):
            thread.start()
        self._listener.start()

    def stop(self, drain_seconds: float = 10.0) -> bool:
        """Lease nothing more and wait for the running steps; False when some still ran after that.

        Their work is not lost: the steps run again when their leases have ended.
        """
        if self._leaser.ident is None:
            return True
        self._stopping.set()
        self._woken.set()
        deadline = time.monotonic() + drain_seconds
        self._listener.stop()
        self._leaser.join(drain_seconds)
        for _ in self._threads:
            self._leased.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def wake(self) -> None:
        """Lease due operations now. Call it after a transaction that submitted or canceled operations.

        Where this process runs none, the worker of another one is told; PostgreSQL has told it with the transaction.
        """
        self._has_new = True
        self._woken.set()
        if self._leaser.ident is None and not self._store.is_postgresql:
            ring(self._store)

    def count_threads(self) -> tuple[int, int]:
        """Return how many threads run operations, and how many of them are busy now; none before `start`."""
        if self._leaser.ident is None:
            return 0, 0
        with self._lock:
            return len(self._threads), len(self._threads) - self._free

    def run_until_idle(self, horizon_seconds: float = 0.3, limit_seconds: float = 10.0) -> None:
        """Run operations in this thread until none is due within `horizon_seconds`, or `limit_seconds` are over."""
        deadline = time.monotonic() + limit_seconds
        while time.monotonic() < deadline:
            leased = self._lease(1)
            for operation in leased:
                self._runner.run(operation)
            due_in = 0.0 if leased else self._seconds_until_due()
            if due_in is None or due_in > horizon_seconds:
                return
            self._woken.wait(max(0.0, due_in))
            self._woken.clear()

    def _lease_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            has_new, self._has_new = self._has_new, False
            try:
                pause = self._poll(has_new)
            except Unavailable as error:
                _log.warning("no operation is leased: %s", error.__cause__ or error)
                pause = POLL_SECONDS
            except Exception:  # noqa: BLE001 - the edge of a thread: it logs and continues
                _log.exception("BUG: no operation is leased")
                pause = POLL_SECONDS
            self._woken.wait(pause)

    def _poll(self, has_new: bool) -> float:
        """Renew what is held, lease what is due, and return how long to wait before the next call.

        Who has submitted something has work, so this leases without a query for what is due. A thread that became free
        seldom has: to lease takes the turn of a writer, which requests wait for.
        """
        self._release()
        if time.monotonic() >= self._renew_at:
            self._renew()
        due_in = 0.0 if has_new else self._seconds_until_due()
        if due_in is None or due_in > 0:
            return POLL_SECONDS if due_in is None else min(POLL_SECONDS, due_in)
        with self._lock:
            free, long_limit = self._free, self._most_long - len(self._long)
        if free == 0:
            return POLL_SECONDS  # the first thread that becomes free wakes this one
        return 0.0 if self._hand_out(self._lease(free, max(0, min(free, long_limit)))) or has_new else POLL_SECONDS

    def _hand_out(self, leased: list[Operation]) -> bool:
        for operation in leased:
            with self._lock:
                self._free -= 1
                self._held.add(operation.id)
                if self._is_long(operation):
                    self._long.add(operation.id)
            self._leased.put(operation)
        return bool(leased)

    def _work(self) -> None:
        while (operation := self._leased.get()) is not None:
            was_recorded = False
            try:
                was_recorded = self._runner.run(operation, self._goes_on)
            finally:
                with self._lock:
                    self._held.discard(operation.id)
                    self._long.discard(operation.id)
                    self._free += 1
                    if not was_recorded:
                        self._unrecorded.add(operation.id)
                self._woken.set()

    def _goes_on(self, after: Operation, waits: bool) -> bool:
        with self._lock:
            crowded = self._free == 0
            if not self._is_long(after):
                self._long.discard(after.id)
            elif after.id not in self._long:  # a short step comes before
                if len(self._long) >= self._most_long:
                    return False
                self._long.add(after.id)
        return not self._stopping.is_set() and not (waits and crowded)

    def _is_long(self, operation: Operation) -> bool:
        is_running = operation.status is OperationStatus.RUNNING and not operation.cancelled
        return is_running and f"{operation.procedure}.{operation.step}" in self._known.long

    def _seconds_until_due(self) -> float | None:
        with self._store.read() as tx:
            return operations.seconds_until_due(tx, self._known)

    def _lease(self, limit: int, long_limit: int | None = None) -> list[Operation]:
        with self._lock:
            held = tuple(self._held)
        with self._store.write(durable=self._store.is_postgresql, patient=True) as tx:
            name, known, seconds = self._runner.worker, self._known, self._lease_seconds
            return operations.lease(tx, name, known, seconds, limit, held, long_limit)

    def _release(self) -> None:
        """Release what this worker leased and could not record while the store was unavailable: it is due at once."""
        with self._lock:
            lost = tuple(self._unrecorded)
        if lost:
            with self._store.write() as tx:
                operations.release(tx, self._runner.worker, lost)
            with self._lock:
                self._unrecorded.difference_update(lost)

    def _renew(self) -> None:
        next_at = time.monotonic() + self._lease_seconds / 3
        with self._lock:
            held = tuple(self._held)
        with self._store.write() as tx:
            if held:
                operations.renew(tx, self._runner.worker, held, self._lease_seconds)
            operations.cut_leases(tx)
        self._renew_at = next_at  # after a store that is away for a moment: at the next poll, before leases end
        with self._store.read() as tx:
            unknown = operations.list_unknown(tx, self._known)
        for operation in unknown:
            if operation.id not in self._reported:
                self._reported.add(operation.id)
                where = f"{operation.procedure}.{operation.step}"
                _log.error("operation %s does not run: this version has no step %s", operation.id, where)


def _known(procedures: Sequence[Procedure], long: frozenset[str]) -> Known:
    def keys(names: Callable[[Procedure], Sequence[str]]) -> frozenset[str]:
        return frozenset(f"{p.name}.{name}" for p in procedures for name in names(p))

    can_wait = frozenset(p.name for p in procedures if p.background)
    low_priority = frozenset(p.name for p in procedures if p.is_low_priority)
    return _same(Known(keys(lambda p: tuple(p.steps)), keys(lambda p: tuple(p.undo)), can_wait, low_priority, long))


@functools.lru_cache(maxsize=64)
def _same(known: Known) -> Known:
    """Return one instance for all that are equal: its statements take long to build."""
    return known
