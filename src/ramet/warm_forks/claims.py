"""The verb fork where a service keeps warm forks: a request that they fit gets them, in one transaction.

Everything that can be decided without changing the store is decided before. The transaction locks the parent, checks
again, and makes the fork's row that of the client: name, life span, labels, key and idempotency key. The password was
derived when the fork was made, so a client that never got the answer gets the same one again.
"""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control import forks, key_limits
from ramet.control.archived_forks import find_parent
from ramet.control.idempotency import may_open, remember, replay
from ramet.control.life_spans import within_limits
from ramet.control.lookup import find_service
from ramet.control.plane import Plane
from ramet.control.requests import Accepted, ForkRequest, is_neutralized
from ramet.errors import Invalid, Unseen
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret, derived_password
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import Activity, OperationStatus, Status
from ramet.model.warm_forks import AUTOMATIC, Warmth, check_age, is_like, pool_of, warmth_of
from ramet.procedures.servers import server_of
from ramet.store import services
from ramet.store.warm_forks import ended_since, has_unclaimed_forks, unclaimed_forks

PASSWORD_KEY = "warm forks"  # noqa: S105 - what the password is derived with; no idempotency key has a space
# What gives a service other data, or stops it: forks from before that are not of its present state.
_REPLACING = (
    ProcedureName.RESTORE,
    ProcedureName.STOP,
    ProcedureName.DELETE,
    ProcedureName.RESIZE,
    ProcedureName.UPGRADE,
    ProcedureName.COPY_AGAIN,
    ProcedureName.REPLACE_COPY,
    ProcedureName.PROMOTE,
)


@dataclass(frozen=True)
class _Asked:
    """The fork that a request asks for, and how old its state may be; None: it must be the present one.

    `mark` is the parent's commit mark after the request arrived; None where it was not needed.
    """

    wanted: Service
    now: datetime
    max_age_seconds: int | None
    mark: str | None = None

    def is_fresh(self, warmth: Warmth) -> bool:
        """Tell whether a state is as young as the request allows."""
        return self.max_age_seconds is not None and warmth.is_within(self.max_age_seconds, self.now)

    def accepts(self, plane: Plane, fork: Service) -> bool:
        """Tell whether a warm fork is what was asked for: as it serves, by its properties, and by its state."""
        warmth = _warmth_if_ready(plane, fork, self.wanted)
        return warmth is not None and (self.is_fresh(warmth) or (self.mark is not None and warmth.mark == self.mark))


def fork_services(
    plane: Plane,
    project_id: str,
    service_id: str,
    request: ForkRequest,
    count: int = 1,
    idempotency_key: str | None = None,
) -> list[Accepted]:
    """Accept forks as `control.forks` does; they are warm forks where as many as are asked for fit."""
    check_request(request)
    if may_be_warm(request, count):
        claimed = claim_forks(plane, project_id, service_id, request, count, idempotency_key)
        if claimed is not None:
            return claimed
    made = forks.fork_services(plane, project_id, service_id, request, count, idempotency_key)
    return [_if_it_opens(plane, one) for one in made]


def claim_forks(
    plane: Plane,
    project_id: str,
    service_id: str,
    request: ForkRequest,
    count: int,
    idempotency_key: str | None,
) -> list[Accepted] | None:
    """Give warm forks of a service to the caller; None when fewer fit, or the request made some earlier."""
    keys, known = forks.keys_of(idempotency_key, count), forks.asked_for(service_id, request, count)
    with plane.store.read() as tx:
        if not has_unclaimed_forks(tx, service_id, count):
            return None
        if any(replay(plane, tx, project_id, key, known) for key in keys):
            return None
        parent = find_parent(plane, tx, project_id, service_id, from_deleted=False)
        found = unclaimed_forks(tx, parent.id)
    asked = _examine(plane, parent, request, found)
    if asked is None:
        return None
    serving = {fork.id for fork in found if asked.accepts(plane, fork) and _is_serving(plane, fork)}
    if len(serving) < count:
        return None
    with plane.store.write(early=True) as tx:
        plane = key_limits.with_present_key(plane, tx)
        if any(replay(plane, tx, project_id, key, known) for key in keys):
            return None
        claimed = _claim(plane, tx, parent, asked, serving, count)
        for key, one in zip(keys, claimed, strict=False):
            remember(plane, tx, project_id, key, known, one.service.id)
    return [_as_expected(parent, one) for one in claimed] or None


def _as_expected(parent: Service, claimed: Accepted) -> Accepted:
    """Return the answer as its client expects it: QUEUED, unless the parent was given a pool.

    A client that sees READY in the answer to its request does not poll (docs/compatibility.md).
    """
    if pool_of(parent) is not None:
        return claimed
    queued = Activity("", ProcedureName.FORK, OperationStatus.RUNNING, started=False)
    return dataclasses.replace(claimed, service=replace(claimed.service, activity=queued))


def check_request(request: ForkRequest) -> None:
    """Raise Invalid for an age that is out of range, or is not of a fork as of now."""
    if request.max_age_seconds is None:
        return
    check_age(request.max_age_seconds)
    if request.strategy is not ForkStrategy.NOW:
        raise Invalid(
            "MAX_AGE_NOT_ALLOWED",
            f"max_age_seconds is allowed with fork_strategy NOW only (got {request.strategy})",
            "Leave max_age_seconds out, or send fork_strategy NOW.",
        )


def may_be_warm(request: ForkRequest, count: int) -> bool:
    """Tell whether warm forks can be what a request asks for: each is of now, and neutralized.

    Several have the same state, so those that may be older are made together.
    """
    is_of_now = request.strategy is ForkStrategy.NOW and not request.from_deleted
    return is_of_now and is_neutralized(request) and (count == 1 or request.max_age_seconds is None)


def was_replaced_since(tx: sa.Connection, parent_id: str, since: datetime) -> bool:
    """Tell whether a service has got other data or was stopped after a time, or that is under way."""
    return ended_since(tx, parent_id, _REPLACING, since)


def password_of(plane: Plane, fork_id: str) -> Secret:
    """Return the initial password of a warm fork."""
    return derived_password(plane.root_key, fork_id, PASSWORD_KEY)


def _examine(plane: Plane, parent: Service, request: ForkRequest, found: list[Service]) -> _Asked | None:
    """Check a request as any fork's; ask the parent for its commit mark, unless a fork is fresh enough anyway."""
    pool = pool_of(parent) or AUTOMATIC
    if not pool.size:
        return None
    key_limits.check_request(plane, request)
    now = plane.clock()
    wanted = forks.checked_fork(plane, parent, request, now)
    max_age = None if request.max_age_seconds is None else min(request.max_age_seconds, pool.max_age_seconds)
    asked = _Asked(wanted, now, max_age)
    known = [warmth for fork in found if (warmth := _warmth_if_ready(plane, fork, wanted)) is not None]
    if any(asked.is_fresh(one) for one in known) or all(one.mark is None for one in known):
        return asked
    is_serving = status_of(parent) is Status.READY
    mark = plane.backend.replication.commit_mark(server_of(parent)) if is_serving else None
    return dataclasses.replace(asked, mark=mark)


def fits(plane: Plane, fork: Service, wanted: Service) -> bool:
    """Tell whether a warm fork is like a wanted one, and announces the host that this one would have."""
    return is_like(fork, wanted) and fork.host == plane.backend.host.address(fork.id, fork.project_id, wanted.host)


def _warmth_if_ready(plane: Plane, fork: Service, wanted: Service) -> Warmth | None:
    is_ready = fork.unclaimed and fork.ready_at is not None and status_of(fork) is Status.READY
    return warmth_of(fork) if is_ready and fits(plane, fork, wanted) else None


def _is_serving(plane: Plane, fork: Service) -> bool:
    """Tell whether the server of a fork that is READY serves: it may have died since somebody looked."""
    try:
        return plane.backend.servers.inspect(server_of(fork)).serving
    except Unseen:
        return False


def _claim(
    plane: Plane, tx: sa.Connection, parent: Service, asked: _Asked, serving: Collection[str], count: int
) -> list[Accepted]:
    """Make the youngest forks that fit and serve the caller's, if there are so many.

    Locks the parent first, as every fork does, then the forks.
    """
    parent = forks.lock_parent(plane, tx, parent, from_deleted=False)
    services.take_turn(tx)
    found = [one for one in unclaimed_forks(tx, parent.id) if one.id in serving and asked.accepts(plane, one)]
    chosen = list[Service]()
    for one in sorted(found, key=_as_of, reverse=True):
        fork = services.get_service(tx, one.id, lock=True)
        if fork is None or not asked.accepts(plane, fork) or was_replaced_since(tx, parent.id, fork.created_at):
            continue
        chosen.append(fork)
        if len(chosen) == count:
            break
    else:
        return []
    wanted = [forks.numbered(asked.wanted, n, count) for n in range(count)]
    wanted = [replace(one, id=fork.id, origin=fork.origin) for one, fork in zip(wanted, chosen, strict=True)]
    given = within_limits(plane, tx, wanted, parent)
    if any(one.sleep_after_seconds is not None for one in given):
        return []  # its server would need a port of its own
    for fork, one in zip(chosen, given, strict=True):
        _give(plane, tx, fork, one, asked)
    return [Accepted(find_service(plane, tx, parent.project_id, one.id), password_of(plane, one.id)) for one in given]


def _give(plane: Plane, tx: sa.Connection, fork: Service, given: Service, asked: _Asked) -> None:
    warmth = warmth_of(fork)
    is_exact = warmth is not None and asked.mark is not None and warmth.mark == asked.mark
    services.update_service(
        tx,
        fork.id,
        unclaimed=False,
        name=given.name,
        created_at=given.created_at,
        ready_at=given.created_at,
        labels=given.labels or None,
        protected=given.protected,
        life_span=services.life_span_column(given.life_span),
        made_by=None if plane.caller is None else plane.caller.public_key,
        data_time=None if is_exact or warmth is None else warmth.as_of,
    )


def _as_of(fork: Service) -> datetime:
    warmth = warmth_of(fork)
    if warmth is None:
        raise AssertionError(f"BUG: {fork.id} is not warm")
    return warmth.as_of


def _if_it_opens(plane: Plane, earlier: Accepted) -> Accepted:
    """Return an answer with the password of a warm fork, if it is one and is not known not to accept it."""
    fork = earlier.service
    if warmth_of(fork) is None:
        return earlier
    password = password_of(plane, fork.id)
    return Accepted(fork, password if may_open(plane, fork, password) else None)
