"""What the key of a caller allows of forks: which parents, which forks, and for how long.

A forker may fork the parents that its key names, and its own forks; a fork of its own fork ends no later than that one.
"""

from datetime import datetime, timedelta

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.keys import present_key
from ramet.control.lookup import visible_service
from ramet.control.plane import Plane
from ramet.control.requests import ForkRequest, is_neutralized
from ramet.errors import Forbidden, Invalid
from ramet.model.environment import Environment
from ramet.model.keys import ApiKey
from ramet.model.life_span import LifeSpan
from ramet.model.rights import Role
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339


def with_present_key(plane: Plane, tx: sa.Connection) -> Plane:
    """Return the context with the caller's key as it is now: what is examined before a transaction may take long.

    Raises Unauthorized when it opens nothing any more.
    """
    return plane if plane.caller is None else plane.on_behalf_of(present_key(tx, plane.caller, plane.clock()))


def as_parent_seen(plane: Plane, service_id: str) -> Plane:
    """Return the context to look a parent up in: a forker sees those that its key names for this alone."""
    caller = plane.caller
    return plane.on_behalf_of(None) if caller is not None and service_id in caller.limits.parents else plane


def list_parents(plane: Plane) -> list[Service]:
    """Return the services that the caller may fork without seeing them, as far as they exist."""
    caller = plane.caller
    if caller is None or not caller.limits.parents:
        return []
    with plane.store.read() as tx:
        unseen = plane.on_behalf_of(None)
        found = [visible_service(unseen, tx, caller.project_id, one) for one in caller.limits.parents]
    return [one for one in found if one is not None]


def check_request(plane: Plane, request: ForkRequest) -> None:
    """Raise Forbidden for a fork that a forker may not make."""
    if plane.only_made_by is None:
        return
    for is_wrong, field, allowed in (
        (request.environment is not Environment.DEV, f"environment_tag {request.environment}", "DEV forks only"),
        (not is_neutralized(request), "quiet false", "neutralized forks only"),
        (request.protected, "protected true", "forks that expire only"),
        (request.from_deleted, "from_deleted true", "forks of services that exist only"),
    ):
        if is_wrong:
            raise Forbidden(
                "FORBIDDEN",
                f"A key with the role {Role.FORKER} makes {allowed} (got {field})",
                "Leave it out, or use a key with another role.",
            )


def first_span(caller: ApiKey | None, fork: Service, parent: Service, span: LifeSpan | None) -> LifeSpan | None:
    """Return the life span of a new fork: `span`, which its project gives it, within what the caller's key allows.

    A life span that was not requested is shortened. Raises Invalid for one that was.
    """
    latest = _latest(caller, fork)
    if caller is None or latest is None:
        return span
    origin = parent.life_span
    if caller.sees_own_only and parent.made_by == caller.public_key and origin is not None:
        latest = min(one for one in (latest, origin.expires_at, origin.latest_at) if one is not None)
    span = replace(span or LifeSpan(), latest_at=latest)
    is_requested = fork.life_span is not None and fork.life_span.expires_at is not None
    if is_requested or (span.expires_at is not None and span.expires_at <= latest):
        return _within(caller, fork, span, latest)
    return replace(span, expires_at=latest, ttl_seconds=max(1, int((latest - fork.created_at).total_seconds())))


def later_span(caller: ApiKey | None, fork: Service, span: LifeSpan | None) -> LifeSpan | None:
    """Return the life span of a fork that is extended, within what the caller's key allows. Raises Invalid."""
    latest = _latest(caller, fork)
    if caller is None or latest is None:
        return span
    if span is None or span.expires_at is None:
        raise Invalid(
            "LIFE_SPAN_TOO_LONG",
            f"A fork of key {caller.public_key} must expire ({_limit_of(caller, fork, latest)})",
            "Send ttl_seconds or expires_at.",
        )
    return _within(caller, fork, replace(span, latest_at=latest), latest)


def _latest(caller: ApiKey | None, fork: Service) -> datetime | None:
    """Return when a fork must have ended that the caller makes or extends; None: its key does not say."""
    if caller is None or caller.limits.max_fork_ttl_seconds is None:
        return None
    own = fork.created_at + timedelta(seconds=caller.limits.max_fork_ttl_seconds)
    before = None if fork.life_span is None else fork.life_span.latest_at
    return own if before is None else min(own, before)


def _within(caller: ApiKey, fork: Service, span: LifeSpan, latest: datetime) -> LifeSpan:
    if span.expires_at is not None and span.expires_at > latest:
        raise Invalid(
            "LIFE_SPAN_TOO_LONG",
            f"A fork of key {caller.public_key} must expire by {rfc3339(latest)}"
            f" ({_limit_of(caller, fork, latest)}), and this one would expire at {rfc3339(span.expires_at)}",
            "Send a shorter life span.",
        )
    return span


def _limit_of(caller: ApiKey, fork: Service, latest: datetime) -> str:
    seconds = caller.limits.max_fork_ttl_seconds
    is_own = seconds is not None and latest == fork.created_at + timedelta(seconds=seconds)
    return f"max_fork_ttl_seconds {seconds}" if is_own else "as the fork that it was made of"
