"""Rows of services, and of the holds that forks put on them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple, replace

from ramet.model.fork import ForkStrategy
from ramet.model.fork_report import fork_facts
from ramet.model.gaps import Gap
from ramet.model.life_span import LifeSpan
from ramet.model.procedures import ProcedureName
from ramet.model.service import PARENTS_OWN, Service
from ramet.model.status import OperationStatus
from ramet.model.upstream import Following
from ramet.store import replica_sets
from ramet.store.database import locking
from ramet.store.due import UNDER_WAY
from ramet.store.journal import journal_of
from ramet.store.rows import columns_of
from ramet.store.service_rows import WHOLE, WITHOUT_REPORT, service_of_row
from ramet.store.tables import hold, is_live, is_ready_fork_of_now, operation, replica_set, service, was_archived

_PORTS_LOCK = 7206356  # any number, the same in every process
LATEST_FORKS = 10
"""Of so many forks as of now a service knows what they hold. The last one to be READY need not hold the most."""
_NEW = """
    id project_id name region_code service_type environment volume_type host port pooler_port pg_major created_at paused
    settings upstream archived_as protected sleep_after_seconds server_port asleep made_by
    unclaimed half_promoted
"""
_SIZE = "cpu_millis memory_gbs"
_ORIGIN = (
    *("parent_project_id", "parent_service_id", "parent_name", "fork_strategy", "fork_target_time"),
    *("origin_snapshot_id", "data_time"),
)

_one = WHOLE.where(service.c.id == sa.bindparam("service_id"))
_INSERT = service.insert()
_SAME = service.c.id == sa.bindparam("same_id")
_UPDATE = service.update().where(_SAME)
_FINISH = _UPDATE.where(service.c.operation_id == sa.bindparam("same_operation"))
_LOCK = locking(sa.select(service.c.id).where(_SAME))
_LIVE = is_live(service)


def live(*wanted: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query of the services that are neither deleted nor failed and meet conditions, oldest first.

    What is asked every second builds it once: SQLAlchemy takes longer to recognize a new statement than to execute it.
    """
    return WITHOUT_REPORT.where(_LIVE, *wanted).order_by(service.c.created_at)


_ALL_LIVE = live()
_CLAIMED = live(service.c.unclaimed.is_(False))
_WITH_LIFE_SPAN = live(service.c.life_span.is_not(None))
_THAT_MOVE = live(service.c.settings["wanted_host"].as_string().is_not(None))
_THAT_MAY_SLEEP = live(service.c.server_port.is_not(None))
_PORTS = sa.select(service.c.port, service.c.pooler_port, service.c.server_port).where(_LIVE)
_ADD_HOLD = hold.insert()
_DROP_HOLDS = hold.delete().where(hold.c.operation_id == sa.bindparam("same_operation"))
_HOLDERS = sa.select(hold.c.operation_id).where(hold.c.service_id == sa.bindparam("same_id"))
_BY_PARENT = (replica_set.c.service_id == service.c.id, operation.c.procedure.in_(PARENTS_OWN))
_claims = sa.union_all(
    *(
        sa.select(shown.c.id).where(
            shown.c.id.in_(sa.bindparam("ids", expanding=True)),
            claimed.c.operation_id == operation.c.id,
            operation.c.status == OperationStatus.RUNNING.value,
            *wanted,
        )
        for shown, claimed, wanted in (
            (service, service, ()),
            (replica_set, replica_set, ()),
            (replica_set, service, _BY_PARENT),
        )
    )
)


def insert_service(tx: sa.Connection, new: Service) -> None:
    """Add a service."""
    columns = columns_of(new, _NEW) | columns_of(new.size, _SIZE) | {"verifier": new.verifier.reveal()}
    columns |= {"archive_gaps": gaps_column(new.archive_gaps), "labels": new.labels or None}
    columns["life_span"] = life_span_column(new.life_span)
    if new.origin is not None:
        columns |= dict(zip(_ORIGIN, astuple(new.origin), strict=False))
    tx.execute(_INSERT, columns)
    journal_of(tx).changed.append((new.id, {"created_at": new.created_at}))


def get_service(tx: sa.Connection, service_id: str, *, lock: bool = False) -> Service | None:
    """Return a service, deleted or not, or None. `lock` keeps others from changing it until the transaction ends."""
    if lock:
        tx.execute(_LOCK, {"same_id": service_id})
    row = tx.execute(_one, {"service_id": service_id}).one_or_none()
    return None if row is None else service_of_row(row)


def claimed_among(tx: sa.Connection, ids: Collection[str]) -> set[str]:
    """Return which of these services and read replica sets belong to an operation that runs.

    Those that a set shows of its service count, too.
    """
    return set(tx.scalars(_claims, {"ids": list(ids)}))


def live_services(tx: sa.Connection, *wanted: sa.ColumnElement[bool]) -> list[Service]:
    """Return the services of all projects that are neither deleted nor failed and meet conditions, oldest first.

    They come without their reports.
    """
    return matching(tx, live(*wanted) if wanted else _ALL_LIVE)


def matching(tx: sa.Connection, query: sa.Select[Any]) -> list[Service]:
    """Return the services that a query of `live` finds."""
    return [service_of_row(row) for row in tx.execute(query)]


def claimed_services(tx: sa.Connection) -> list[Service]:
    """Return the services that are neither deleted nor failed, without warm forks that nobody has claimed."""
    return matching(tx, _CLAIMED)


def deleted_in_archive(tx: sa.Connection, project_id: str | None = None) -> list[Service]:
    """Return the deleted services that the off-host archive still has, of a project or of all, oldest first."""
    there = service.c.deleted_at.is_not(None) & service.c.archive_from.is_not(None)
    if project_id is not None:
        there &= service.c.project_id == project_id
    return [service_of_row(row) for row in tx.execute(WITHOUT_REPORT.where(there).order_by(service.c.deleted_at))]


def has_copies_under_way(tx: sa.Connection, service_id: str) -> bool:
    """Tell whether a fork of a service is being created, or a restore or a drill copies its base backup."""
    fork = (service.c.parent_service_id == service_id) & service.c.ready_at.is_(None) & _LIVE
    source = sa.func.coalesce(operation.c.state["parent_id"].as_string(), operation.c.subject)
    reads = operation.c.state["base_backup_id"].as_string().is_not(None) & (source == service_id)
    copies = sa.union_all(sa.select(service.c.id).where(fork), sa.select(operation.c.id).where(UNDER_WAY, reads))
    return tx.execute(copies.limit(1)).first() is not None


def downloads_of_forks(tx: sa.Connection, most: int) -> list[tuple[int, float]]:
    """Return the bytes and seconds of what the latest forks have downloaded from the off-host archive."""
    download = service.c.report["capture"]["archive"]
    sizes, seconds = download["downloaded_bytes"].as_integer(), download["seconds"].as_float()
    query = sa.select(sizes, seconds).where(service.c.ready_at.is_not(None), sizes.is_not(None), seconds > 0)
    return [(size, took) for size, took in tx.execute(query.order_by(service.c.ready_at.desc()).limit(most)).all()]


def deleted_with_archive(tx: sa.Connection) -> dict[str, str]:
    """Return id and name of each deleted service whose base backups the archive still has.

    Recovered ones stay: the catalogue of the installation from which they were recovered has them as not deleted.
    """
    there = was_archived & (service.c.archive_from.is_not(None) | service.c.recovered)
    query = sa.select(service.c.id, service.c.name).where(there).order_by(service.c.id)
    return {row.id: row.name for row in tx.execute(query)}


def expect_archive(tx: sa.Connection, service_id: str) -> None:
    """Let the archive of a service of which no base backup is known be cleaned up as any other."""
    unknown = (service.c.id == service_id) & service.c.archive_from.is_(None)
    tx.execute(service.update().where(unknown).values(archive_from=service.c.created_at))


def is_recovered(tx: sa.Connection, service_id: str) -> bool:
    """Tell whether a service was recovered here: the archive has base backups of it from before that."""
    return bool(tx.scalar(sa.select(service.c.recovered).where(service.c.id == service_id)))


def count_forks(tx: sa.Connection, service_id: str, since: datetime, most: int) -> int:
    """Count up to `most` forks of a service as of now or of a snapshot, no other time, accepted after `since`."""
    project_id = sa.select(service.c.project_id).where(service.c.id == service_id).scalar_subquery()
    fork = (service.c.project_id == project_id) & (service.c.created_at > since)
    fork &= (service.c.parent_service_id == service_id) & (service.c.fork_strategy != ForkStrategy.PITR.value)
    return len(tx.execute(sa.select(service.c.id).where(fork).limit(most)).all())


def ends_of_forks_of_now(tx: sa.Connection, service_id: str) -> list[tuple[int, str]]:
    """Return timeline and LSN that the latest forks of a service as of now hold all of, deleted ones among them.

    Those of before its upgrade say nothing: that has begun a new cluster, as soon as clients could be let in.
    """
    own = (operation.c.subject == service_id) & (operation.c.procedure == ProcedureName.UPGRADE.value)
    opened = operation.c.state["is_open"].as_boolean()
    last = sa.select(sa.func.max(operation.c.finished_at)).where(own, opened).scalar_subquery()
    fork = (service.c.parent_service_id == service_id) & is_ready_fork_of_now
    fork &= last.is_(None) | (service.c.ready_at > last)
    query = sa.select(service.c.report).where(fork, service.c.unclaimed.is_(False))
    reports = tx.execute(query.order_by(service.c.ready_at.desc()).limit(LATEST_FORKS)).scalars()
    captures = [fork_facts(report).capture for report in reports if report]
    return [(one.timeline, one.end_lsn) for one in captures if one.timeline is not None and one.end_lsn is not None]


def gaps_column(gaps: Sequence[Gap]) -> list[Any] | None:
    """Return gaps as `update_service` stores them in `archive_gaps`."""
    stored: list[Any] = msgspec.to_builtins(gaps)
    return stored or None


def life_span_column(span: LifeSpan | None) -> dict[str, Any] | None:
    """Return a life span as `update_service` stores it."""
    return None if span is None else msgspec.to_builtins(span)


def with_life_span(tx: sa.Connection) -> list[Service]:
    """Return the services of all projects that have a life span and are neither deleted nor failed."""
    return matching(tx, _WITH_LIFE_SPAN)


def that_move(tx: sa.Connection) -> list[Service]:
    """Return the services of all projects that are to get another host, neither deleted nor failed."""
    return matching(tx, _THAT_MOVE)


def that_may_sleep(tx: sa.Connection) -> list[Service]:
    """Return the services of all projects whose endpoints outlive their servers, neither deleted nor failed."""
    return matching(tx, _THAT_MAY_SLEEP)


def trials_of_upgrades(tx: sa.Connection, service_id: str) -> list[Service]:
    """Return the forks that were made of a service to try an upgrade, deleted ones among them, newest first."""
    version = service.c.report["upgrade"]["to_version"].as_string()
    trial = (service.c.parent_service_id == service_id) & version.is_not(None)
    return [service_of_row(row) for row in tx.execute(WHOLE.where(trial).order_by(service.c.created_at.desc()))]


def update_service(tx: sa.Connection, service_id: str, **columns: Any) -> None:
    """Set columns of a service."""
    tx.execute(_UPDATE, {"same_id": service_id, **columns})
    journal_of(tx).changed.append((service_id, columns))


def record_following(tx: sa.Connection, service_id: str, following: Following | None) -> None:
    """Record how far behind its source a service is; None: it follows none any more."""
    update_service(tx, service_id, following=None if following is None else msgspec.to_builtins(following))


def forget_copies(tx: sa.Connection, service_id: str) -> None:
    """Forget the attempts to copy a service's source again: they are counted from the first."""
    found = get_service(tx, service_id)
    if found is not None and found.following is not None and found.following.copies is not None:
        record_following(tx, service_id, replace(found.following, copies=None, problem=None))


def finish_operation(tx: sa.Connection, service_id: str, operation_id: str, **columns: Any) -> None:
    """End an operation's claim on a service and set columns; does nothing when a later operation has claimed it.

    One that is started or paused is not asleep, unless `columns` say so.
    """
    same = {"same_id": service_id, "same_operation": operation_id}
    awake = {"asleep": False} if "paused" in columns else {}
    if tx.execute(_FINISH, {**same, "operation_id": None, **awake, **columns}).rowcount:
        journal_of(tx).changed.append((service_id, columns))


def release_claims(tx: sa.Connection, operation_id: str, **columns: Any) -> None:
    """End the claims that an operation has on any services, and set columns of these."""
    claimed = (service.c.operation_id == operation_id) & service.c.deleted_at.is_(None)  # deleted ones have no claim
    made = service.update().where(claimed).values({"operation_id": None, **columns}).returning(service.c.id)
    journal_of(tx).changed.extend((service_id, columns) for service_id in tx.scalars(made))


def used_ports(tx: sa.Connection) -> set[int]:
    """Return the ports of all services and replica sets that are neither deleted nor failed, and of their poolers.

    No other writer runs before the transaction ends, so a port that is free stays free until it is reserved.
    """
    take_turn(tx)
    return {port for row in tx.execute(_PORTS) for port in row if port is not None} | replica_sets.used_ports(tx)


def take_turn(tx: sa.Connection) -> None:
    """Let no other transaction that adds services run before this one ends; on SQLite no other writer does anyway."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PORTS_LOCK})


def add_hold(tx: sa.Connection, service_id: str, operation_id: str) -> None:
    """Keep a service from being stopped, started, trimmed or deleted while an operation copies from it."""
    tx.execute(_ADD_HOLD, {"service_id": service_id, "operation_id": operation_id})


def drop_holds(tx: sa.Connection, operation_id: str) -> None:
    """Release every service that an operation holds."""
    tx.execute(_DROP_HOLDS, {"same_operation": operation_id})


def holders(tx: sa.Connection, service_id: str) -> list[str]:
    """Return the operations that hold a service."""
    return list(tx.scalars(_HOLDERS, {"same_id": service_id}))
