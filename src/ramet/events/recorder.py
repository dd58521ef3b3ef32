"""Adds events in the transactions that make them true: called by the store right before each commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from ramet import acting
from ramet.acting import Act
from ramet.model.events import ENDED_BY, EventType
from ramet.model.life_span import LifeSpan
from ramet.model.procedures import SPECS
from ramet.model.service import Service
from ramet.store import events, services, webhooks
from ramet.store.journal import Ended, Journal

QUOTA_CODES = ("PROJECT_LIMIT", "KEY_LIMIT", "NO_FREE_PORT")
_QUOTA_PAUSE = timedelta(minutes=10)


class _Condition(NamedTuple):
    """A column that says what is wrong with a service as long as it is; events say when that begins and ends."""

    column: str
    begins: EventType

    @property
    def ends(self) -> EventType:
        return ENDED_BY[self.begins]


_CONDITIONS = (
    _Condition("down_reason", EventType.SERVICE_DOWN),
    _Condition("storage_warning", EventType.STORAGE_WARNING),
    _Condition("archive_delay", EventType.ARCHIVE_BEHIND),
    _Condition("archive_problem", EventType.ARCHIVE_BEHIND),
)
_HAPPENED = (
    ("ready_at", EventType.SERVICE_READY),
    ("failed_at", EventType.SERVICE_FAILED),
    ("deleted_at", EventType.SERVICE_DELETED),
)
_DRILLS = ("drill_failure", "archive_drill_failure")
_SERVING = (EventType.SERVICE_READY, EventType.SERVICE_UP)


@dataclass(frozen=True)
class EventRecorder:
    """Adds events, and their deliveries to the webhooks that want them. `wake` is called after the commit."""

    clock: Callable[[], datetime]
    wake: Callable[[], None] = lambda: None

    def record(self, tx: sa.Connection, journal: Journal) -> None:
        """Add what a transaction that is about to be committed makes true."""
        added = [self._of_change(tx, service_id, columns) for service_id, columns in journal.changed]
        added += [self._of_end(tx, ended) for ended in journal.ended if ended.error is not None]
        act = acting.current()
        if act is not None and act.outcome == "refused" and act.code in QUOTA_CODES and act.project_id is not None:
            added.append(self._of_quota(tx, act, act.project_id))
        if any(added):
            journal.after_commit.append(self.wake)

    def add(
        self, tx: sa.Connection, project_id: str, type_: EventType, service_id: str | None, data: dict[str, object]
    ) -> bool:
        """Add an event and its deliveries; True."""
        now = self.clock()
        made = events.append(tx, now, project_id, type_, service_id, data)
        for row in webhooks.list_enabled(tx, project_id):
            if not row.types or made.type.value in row.types:
                webhooks.add_delivery(tx, row.id, made, now)
        return True

    def _of_change(self, tx: sa.Connection, service_id: str, columns: Mapping[str, Any]) -> bool:
        watched = [one for one, _ in _HAPPENED if columns.get(one) is not None]
        watched += [one for one in _DRILLS if columns.get(one) is not None]
        watched += [one.column for one in _CONDITIONS if one.column in columns]
        if not watched and not (columns.get("life_span") or {}).get("announced_at"):
            return False
        service = services.get_service(tx, service_id)
        if service is None or service.unclaimed:
            return False
        added = [self._add_about(tx, service, type_) for column, type_ in _HAPPENED if column in watched]
        added += [
            self._add_about(tx, service, EventType.DRILL_FAILED, columns[one]) for one in _DRILLS if one in watched
        ]
        added += [self._of_condition(tx, service, one, columns) for one in _CONDITIONS if one.column in watched]
        added.append(self._of_life_span(tx, service, columns))
        return any(added)

    def _add_about(self, tx: sa.Connection, service: Service, type_: EventType, reason: str | None = None) -> bool:
        """Add an event about a service; of one that is paused, none that says that its server runs."""
        if service.paused and type_ in _SERVING:
            return False
        data = _about(service)
        if type_ is EventType.SERVICE_FAILED:
            reason = service.failure
        if service.origin is not None:
            data["parent_service_id"] = service.origin.service_id
        if reason is not None:
            data["reason"] = reason
        return self.add(tx, service.project_id, type_, service.id, data)

    def _of_condition(
        self, tx: sa.Connection, service: Service, condition: _Condition, columns: Mapping[str, Any]
    ) -> bool:
        """Add the event where a condition begins or ends; its column may be set again while it lasts."""
        reason = columns[condition.column]
        last = events.last_of(tx, service.project_id, (condition.begins, condition.ends), service.id)
        lasts = last is not None and last.type is condition.begins
        if (reason is not None) is lasts:
            return False
        if (
            condition.begins is EventType.ARCHIVE_BEHIND
            and reason is None
            and (service.archive_delay or service.archive_problem)
        ):
            return False
        return self._add_about(tx, service, condition.begins if reason is not None else condition.ends, reason)

    def _of_life_span(self, tx: sa.Connection, service: Service, columns: Mapping[str, Any]) -> bool:
        """Add the announcement that a service expires, once for each time that it is announced."""
        stored = columns.get("life_span") or {}
        if not stored.get("announced_at"):
            return False
        span = msgspec.convert(stored, LifeSpan)
        last = events.last_of(tx, service.project_id, (EventType.SERVICE_EXPIRING,), service.id)
        if last is not None and last.data.get("announced_at") == stored["announced_at"]:
            return False
        data = _about(service) | {"announced_at": stored["announced_at"], "reason": span.warning}
        return self.add(tx, service.project_id, EventType.SERVICE_EXPIRING, service.id, data)

    def _of_end(self, tx: sa.Connection, ended: Ended) -> bool:
        """Add the failure of an operation; of one that makes a service, the failure of the service says it."""
        service = services.get_service(tx, ended.subject)
        if service is None or service.unclaimed or (ended.procedure in SPECS and SPECS[ended.procedure].creates):
            return False
        found = {"operation": ended.procedure, "operation_id": ended.operation_id, "reason": ended.error}
        return self.add(tx, service.project_id, EventType.OPERATION_FAILED, service.id, _about(service) | found)

    def _of_quota(self, tx: sa.Connection, act: Act, project_id: str) -> bool:
        """Add that a request was refused because of a limit; not again for some minutes, as clients try again."""
        known = events.list_of_types(tx, project_id, (EventType.QUOTA_REACHED,), len(QUOTA_CODES))
        if any(one.data.get("code") == act.code and self.clock() - one.at < _QUOTA_PAUSE for one in known):
            return False
        data: dict[str, object] = {"code": act.code, "verb": act.verb, "key": act.actor.id, "key_name": act.actor.name}
        return self.add(tx, project_id, EventType.QUOTA_REACHED, None, data)


def _about(service: Service) -> dict[str, object]:
    return {"service_id": service.id, "service_name": service.name}
