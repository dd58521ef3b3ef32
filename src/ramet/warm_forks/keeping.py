"""The duty that keeps pools of warm forks: it discards forks that no client may get, and makes others in idle time.

One fork is made at a time, and none while other servers are being made or started, or while the host would then have no
room for one more. Nothing is remembered that matters: what this process saw of the parents' commits saves work only.

An automatic pool costs little where it is of no use: forks are made only while their parent is quiet, and for each one
that nobody has got the next one waits, for all of them together.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec
import sqlalchemy as sa

from ramet import __version__
from ramet.control import forks
from ramet.control.admission import Wanted, capacity_of, check_admission, wanted_for
from ramet.control.duties.faults import Faults
from ramet.control.idempotency import new_identity
from ramet.control.lookup import find_project
from ramet.control.plane import Plane, nobody_gives_way
from ramet.control.ports import reserve_ports
from ramet.control.services import accept, submit_deletion
from ramet.errors import Error, WrongState
from ramet.model.names import suffixed
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, is_being_deleted, is_down, is_standby, status_of
from ramet.model.status import Status
from ramet.model.warm_forks import POOL_SETTING, Pool, Warmth, pool_of, warmth_of, with_warmth
from ramet.procedures.servers import server_of
from ramet.store import running, services
from ramet.store.warm_forks import has_failed_since, services_among, services_with, unclaimed_forks
from ramet.warm_forks.claims import PASSWORD_KEY, fits, was_replaced_since
from ramet.warm_forks.demand import REQUEST, Demand

EVERY_SECONDS = 1.0
WASTE_SECONDS = 10.0  # to make a fork that nobody gets, and to delete it, takes about half a second of CPU time
_LOOK_SECONDS = 2.0
_SETTLED_SECONDS = 10.0
_SPARE_SECONDS = 3  # a fork that would be too old sooner than this after it was submitted is not made
_PAUSE_SECONDS = 15.0
_DOWN_SECONDS = 60.0
_AFTER_FAILURE = timedelta(minutes=1)
_FREE_PORTS = 8
_log = logging.getLogger(__name__)


@dataclass
class _Seen:
    """What was seen of a parent's commits: its mark, since when it is this one, and when somebody looked last."""

    mark: str | None
    since: float
    looked_at: float

    @property
    def is_settled(self) -> bool:
        return self.mark is not None and self.looked_at - self.since >= _SETTLED_SECONDS


@dataclass
class KeepingWarm:
    """The duty. `most_automatic` is the size of the largest automatic pool. `seconds` is a clock that is never set."""

    plane: Plane
    most_automatic: int = 0
    seconds: Callable[[], float] = time.monotonic
    _demand: Demand = field(init=False)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _paused_until: dict[str, float] = field(default_factory=dict)
    _down_since: dict[str, float] = field(default_factory=dict)
    _next_fork_at: float = 0.0
    _faults: Faults = field(default_factory=lambda: Faults("warm forks"))

    def __post_init__(self) -> None:
        self.plane = as_keeper(self.plane)
        self._demand = Demand(self.plane, self.most_automatic, self.seconds)

    def maintain(self) -> None:
        """Maintain the pools of all services."""
        automatic = self._demand.pools()
        with self.plane.store.read() as tx:
            parents = {one.id: one for one in services_among(tx, automatic)}
            parents |= {one.id: one for one in services_with(tx, POOL_SETTING)}
            found: dict[str, list[Service]] = {}
            for fork in unclaimed_forks(tx):
                if fork.origin is not None and not is_being_deleted(fork):
                    found.setdefault(fork.origin.service_id, []).append(fork)
        self._seen = {one: self._seen[one] for one in parents if one in self._seen}
        now, down = self.seconds(), [one.id for own in found.values() for one in own if is_down(one)]
        self._down_since = {one: self._down_since.get(one, now) for one in down}
        for parent_id, own in found.items():
            if parent_id not in parents:
                with self._faults.contained(parent_id):
                    self._delete(own, "Its parent keeps no forks any more")
        for parent in parents.values():
            with self._faults.contained(parent.id):
                self._maintain_pool(parent, pool_of(parent) or automatic[parent.id], found.get(parent.id, []))

    def _maintain_pool(self, parent: Service, pool: Pool, own: list[Service]) -> None:
        status = status_of(parent)
        if status in (Status.PAUSED, Status.DELETING):
            self._delete(own, f"Its parent is {status}")
            return
        with self.plane.store.read() as tx:
            wanted = forks.child_of(self.plane, parent, REQUEST, self.plane.clock())
            stays_awake = find_project(tx, parent.project_id).limits.fork_sleep_after_seconds is None
            kept = [
                one
                for one in own
                if stays_awake
                and fits(self.plane, one, wanted)
                and not was_replaced_since(tx, parent.id, one.created_at)
            ]
            is_being_replaced = was_replaced_since(tx, parent.id, self.plane.clock())
        self._discard(pool, [one for one in own if one not in kept], "A fork that is made now would be different")
        dead = [one for one in kept if self._stays_down(one)]
        self._discard(pool, dead, "Its server could not be started")
        kept = self._without_stale(parent, pool, [one for one in kept if one not in dead])
        is_due = stays_awake and len(kept) < pool.size and status is Status.READY and not is_being_replaced
        is_time = not pool.automatic or (self._look(parent).is_settled and self.seconds() >= self._next_fork_at)
        if is_due and is_time and self._host_is_idle(parent):
            self._make(parent, pool)

    def _stays_down(self, fork: Service) -> bool:
        """Tell whether the server of a fork is down for long, and not because its turn to be started has not come."""
        since = self._down_since.get(fork.id)
        return since is not None and fork.activity is None and self.seconds() - since >= _DOWN_SECONDS

    def _without_stale(self, parent: Service, pool: Pool, own: list[Service]) -> list[Service]:
        """Discard forks whose state is too old, and of more than the pool has; return the others.

        One whose parent has committed since is replaced when the parent is quiet again, or at half of the age, one at a
        time: the pool does not run empty at once. Of an automatic pool all go then: nobody has asked for older states.
        """
        now = self.plane.clock()  # before the look: what is committed in between is not in the forks
        seen = self._look(parent)
        current = [self._renewed(one, seen, pool, now) for one in own]
        current.sort(key=lambda one: one[1].as_of, reverse=True)
        stale = [fork for fork, warmth in current if not warmth.is_within(pool.max_age_seconds, now)]
        self._discard(pool, stale, f"Its state is older than {pool.max_age_seconds} s")
        kept = [(fork, warmth) for fork, warmth in current if fork not in stale]
        self._discard(pool, [fork for fork, _ in kept[pool.size :]], "Its parent keeps fewer forks now")
        kept = kept[: pool.size]
        late = [fork for fork, warmth in kept if self._is_due(parent, warmth, seen, pool, now)]
        if not pool.automatic:
            is_full = len(kept) == pool.size and all(fork.ready_at is not None for fork, _ in kept)
            late = late[-1:] if is_full else []
        self._discard(pool, late, "Its parent has committed since")
        return [fork for fork, _ in kept if fork not in late]

    def _look(self, parent: Service) -> _Seen:
        """Return what is seen of a parent's commits, looking at them from time to time while it serves."""
        now, before = self.seconds(), self._seen.get(parent.id)
        if status_of(parent) is not Status.READY:
            return _Seen(None, now, now)
        if before is None or now - before.looked_at >= _LOOK_SECONDS:
            mark = self.plane.backend.replication.commit_mark(server_of(parent))
            since = before.since if before is not None and before.mark == mark else now
            self._seen[parent.id] = before = _Seen(mark, since, now)
        return before

    def _renewed(self, fork: Service, seen: _Seen, pool: Pool, now: datetime) -> tuple[Service, Warmth]:
        """Return a fork with its warmth, which begins again while the parent has committed nothing since."""
        warmth = warmth_of(fork)
        if warmth is None:
            raise AssertionError(f"BUG: {fork.id} is unclaimed, and not warm")
        looked = now - timedelta(seconds=_LOOK_SECONDS)
        is_young = warmth.as_of > looked - timedelta(seconds=pool.max_age_seconds / 4)
        if seen.mark is None or warmth.mark != seen.mark or is_young:
            return fork, warmth
        warmth = msgspec.structs.replace(warmth, as_of=looked)
        with self.plane.store.write(durable=False) as tx:
            current = services.get_service(tx, fork.id, lock=True)
            if current is not None and current.unclaimed:
                services.update_service(tx, fork.id, settings=with_warmth(current.settings, warmth))
        return fork, warmth

    def _is_due(self, parent: Service, warmth: Warmth, seen: _Seen, pool: Pool, now: datetime) -> bool:
        """Tell whether a fork is to be replaced although its state is not too old yet."""
        if seen.mark is not None and warmth.mark == seen.mark:
            return False
        until = _complete_until(parent, now)
        if until is None or until <= warmth.as_of:
            return False  # another one would be as old
        return seen.is_settled or not (pool.automatic or warmth.is_within(pool.max_age_seconds // 2, now))

    def _host_is_idle(self, parent: Service) -> bool:
        if self.seconds() < self._paused_until.get(parent.id, 0.0):
            return False
        with self.plane.store.read() as tx:
            return not running.count_starting(tx) and not has_failed_since(
                tx, parent.id, self.plane.clock() - _AFTER_FAILURE
            )

    def _make(self, parent: Service, pool: Pool) -> None:
        """Submit a fork; while there is no room for it, not again for a while."""
        try:
            make_warm_fork(self.plane, parent, pool)
        except Error as error:
            _log.info("service %s: no warm fork is made now: %s", parent.id, error)
            self._paused_until[parent.id] = self.seconds() + _PAUSE_SECONDS

    def _discard(self, pool: Pool, own: Sequence[Service], reason: str) -> None:
        """Delete forks that nobody has got; those of automatic pools delay the next one."""
        self._delete(own, reason)
        if pool.automatic and own:
            self._next_fork_at = max(self._next_fork_at, self.seconds()) + WASTE_SECONDS * len(own)

    def _delete(self, own: Sequence[Service], reason: str) -> None:
        for fork in own:
            with self.plane.change() as tx:
                delete_unclaimed(self.plane, tx, fork.id, f"{reason}.")


def as_keeper(plane: Plane) -> Plane:
    """Return the context in which unclaimed forks exist, and nobody gives way to them."""
    return replace(plane, caller=None, give_way=nobody_gives_way, sees_unclaimed=True)


def make_warm_fork(plane: Plane, parent: Service, pool: Pool) -> None:
    """Submit a fork for a pool. Raises an Error of the verb fork, and Exhausted unless there is room for two."""
    as_of, mark = _as_of(parent, pool, plane.clock()), plane.backend.replication.commit_mark(server_of(parent))
    request = replace(REQUEST, name=suffixed(parent.name, "-warm"))
    plan = forks.plan_fork(plane, parent.project_id, parent.id, request)
    new, capacity = new_identity(plane, PASSWORD_KEY), capacity_of(plane)
    wanted = wanted_for([plan.fork])
    with plane.change() as tx:
        plan = forks.recheck(plane, tx, plan, request)
        if pool_of(plan.parent) != (None if pool.automatic else pool):
            return  # it has another one since
        (port, *_) = reserve_ports(plane, tx, new.free_ports, _FREE_PORTS)
        check_admission(plane, tx, capacity, parent.project_id, Wanted(2 * wanted.servers, 2 * wanted.memory_mbs))
        fork = new.given_to(plan.fork, plane, port)
        settings = with_warmth(fork.settings, Warmth(as_of, mark, __version__))
        fork = msgspec.structs.replace(fork, unclaimed=True, settings=settings)
        state = forks.state_of(tx, plan, request)
        accept(plane, tx, fork, ProcedureName.FORK, new.password, state, plan.parent.id)


def _complete_until(parent: Service, now: datetime) -> datetime | None:
    """Return the time until which a parent has everything: of a standby, as far as it had received it when last seen.

    None where that is not known.
    """
    if not is_standby(parent):
        return now
    until = None if parent.following is None else parent.following.complete_until
    return None if until is None else min(now, until)


def _as_of(parent: Service, pool: Pool, now: datetime) -> datetime:
    """Return the time until which a fork has everything. Raises WrongState where it would be too old at once."""
    until, most_seconds = _complete_until(parent, now), pool.max_age_seconds - _SPARE_SECONDS
    if until is None or now - until > timedelta(seconds=most_seconds):
        raise WrongState(
            "NOT_RECEIVED",
            f"What service {parent.id} has of its source is older than {most_seconds} s, or not known",
            "Its pool is filled when it has received newer changes; the clock of the source counts.",
        )
    return until


def delete_unclaimed(plane: Plane, tx: sa.Connection, fork_id: str, reason: str) -> bool:
    """Submit the deletion of a fork, unless a client has it by now, or it is being deleted. `plane` is a keeper's."""
    fork = services.get_service(tx, fork_id, lock=True)
    if fork is None or not fork.unclaimed or fork.deleted_at or fork.failed_at or is_being_deleted(fork):
        return False
    submit_deletion(plane, tx, fork, reason)
    return True
