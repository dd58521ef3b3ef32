"""What a project, and one key of it, may have at once: checked in the transaction that adds to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from ramet.control.lookup import find_project
from ramet.control.plane import Plane
from ramet.errors import Exhausted
from ramet.model.keys import ApiKey
from ramet.model.quota import NAMES, Quota
from ramet.model.service import Service
from ramet.model.size import Size
from ramet.model.words import listed
from ramet.store import quotas, services
from ramet.store.quotas import Holding

_MB_PER_GB = 1000
_NAMED = 3


@dataclass(frozen=True)
class Use:
    """What services use up, in the units of a quota. `holdings` are those that have it, as far as the caller sees them.

    `seen_by` is the public key of a caller that sees only its own.
    """

    services: int
    forks: int
    cpu_millis: int
    memory_gbs: int
    storage_gbs: float
    holdings: Sequence[Holding] = ()
    seen_by: str | None = None

    def as_seen_by(self, public_key: str) -> "Use":
        """Return the same without the names of what that key did not make."""
        return replace(self, holdings=[one for one in self.holdings if one.made_by == public_key], seen_by=public_key)


@dataclass(frozen=True)
class _Owner:
    """Who has a quota, and who can raise it."""

    name: str
    code: str
    remedy: str


def use_of(tx: sa.Connection, project_id: str, made_by: str | None = None) -> Use:
    """Return what the services of a project, or those that a key made, use up."""
    found = quotas.list_holdings(tx, project_id, made_by)
    own = [one for one in found if not one.is_replica_set]
    return Use(
        len(own),
        sum(one.is_fork for one in own),
        sum(one.cpu_millis for one in found),
        sum(one.memory_gbs for one in found),
        round(sum(one.storage_mb for one in found) / _MB_PER_GB, 3),
        found,
    )


def project_use(plane: Plane, project_id: str) -> Use:
    """Return what the services of a project use up."""
    with plane.store.read() as tx:
        return use_of(tx, project_id)


def check_quotas(caller: ApiKey | None, tx: sa.Connection, new: Sequence[Service]) -> None:
    """Raise Exhausted when a project, or the caller's key, would have more than it may with these new services."""
    sizes, forks = [one.size for one in new], sum(one.origin is not None for one in new)
    _check(caller, tx, new[0].project_id, sizes, services=len(new), forks=forks)


def check_growth(plane: Plane, tx: sa.Connection, service: Service, more: Size) -> None:
    """Raise Exhausted when what a service gets in addition is over the quota of its project.

    Over that of the key that made it, too, where that key asks for it.
    """
    services.take_turn(tx)
    is_own = plane.caller is not None and service.made_by == plane.caller.public_key
    _check(plane.caller if is_own else None, tx, service.project_id, [more])


def _check(
    caller: ApiKey | None,
    tx: sa.Connection,
    project_id: str,
    sizes: Sequence[Size],
    *,
    services: int = 0,
    forks: int = 0,
) -> None:
    of_project = _Owner("The project", "PROJECT_LIMIT", "raise the limit on the host with 'ramet project limits'")
    owners: list[tuple[_Owner, Quota, str | None]] = [(of_project, find_project(tx, project_id).limits, None)]
    if caller is not None and caller.project_id == project_id:
        key = caller.public_key
        remedy = f"let an admin raise the limit with 'ramet key update {key}'"
        owners.append((_Owner(f"Key {key}", "KEY_LIMIT", remedy), caller.limits, key))
    for owner, quota, made_by in owners:
        if any(getattr(quota, name) is not None for name in NAMES):
            use = use_of(tx, project_id, made_by)
            seen = use.as_seen_by(caller.public_key) if caller is not None and caller.sees_own_only else use
            _check_one(owner, quota, seen, sizes, services, forks)


def _check_one(owner: _Owner, quota: Quota, use: Use, sizes: Sequence[Size], services: int, forks: int) -> None:
    cpu = sum(one.cpu_millis or 0 for one in sizes)
    memory = sum(one.memory_gbs or 0 for one in sizes)
    for name, unit, most, has, more in (
        ("max_services", "services", quota.max_services, use.services, services),
        ("max_forks", "forks", quota.max_forks, use.forks, forks),
        ("max_cpu_millis", "thousandths of a core", quota.max_cpu_millis, use.cpu_millis, cpu),
        ("max_memory_gbs", "GB of memory", quota.max_memory_gbs, use.memory_gbs, memory),
    ):
        if most is not None and more and has + more > most:
            users = _users(use, name)
            raise Exhausted(
                owner.code,
                f"{owner.name} may have {most} {unit}, and would have {has + more} ({name}){users}",
                f"Delete some{', or make them smaller' if name in ('max_cpu_millis', 'max_memory_gbs') else ''},"
                f" or {owner.remedy}.",
            )
    if quota.max_storage_gbs is not None and services and use.storage_gbs >= quota.max_storage_gbs:
        raise Exhausted(
            owner.code,
            f"{owner.name} may have {quota.max_storage_gbs} GB on disk (max_storage_gbs), and has"
            f" {use.storage_gbs:.1f}{_users(use, 'max_storage_gbs')}",
            f"Delete some, or {owner.remedy}.",
        )


def _users(use: Use, name: str) -> str:
    """Name what uses up most of a limit; "" where nothing does."""
    amounts = {
        "max_services": [int(not one.is_replica_set) for one in use.holdings],
        "max_forks": [int(one.is_fork) for one in use.holdings],
        "max_cpu_millis": [one.cpu_millis for one in use.holdings],
        "max_memory_gbs": [one.memory_gbs for one in use.holdings],
        "max_storage_gbs": [one.storage_mb for one in use.holdings],
    }[name]
    pairs = sorted(zip(amounts, use.holdings, strict=True), key=lambda pair: pair[0], reverse=True)
    holding = [one.name for amount, one in pairs if amount]
    if not holding:
        return ""
    verb = "it has" if name in ("max_services", "max_forks") else "most of it is used by"
    verb = verb if use.seen_by is None else "yours are"
    return f"; {verb} {listed(holding, _NAMED)}"
