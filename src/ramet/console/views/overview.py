"""What the overview shows of a project: its services by status, its forks by age, what they share, what is wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ramet.model.archive import archive_warning
from ramet.model.metrics import Usage
from ramet.model.service import Service, restore_warning, status_of, status_reason
from ramet.model.status import Status

_AGES = (
    ("less than an hour", timedelta(hours=1)),
    ("less than a day", timedelta(days=1)),
    ("less than a week", timedelta(days=7)),
    ("a week or more", timedelta.max),
)
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class AgeGroup:
    """Forks of about the same age, and the bytes that only they occupy, as far as these were measured."""

    title: str
    count: int
    own_bytes: int


@dataclass(frozen=True)
class Savings:
    """What services occupy, beside what their files add up to: the rest is shared between a fork and its parent."""

    services: int
    apparent_bytes: int
    own_bytes: int

    @property
    def percent(self) -> int:
        """The part that need not be stored, because blocks are shared."""
        return max(0, round(100 * (1 - self.own_bytes / self.apparent_bytes))) if self.apparent_bytes else 0


def by_status(services: Iterable[Service]) -> Sequence[tuple[Status, int]]:
    """Return how many services have each status, the most frequent first."""
    return Counter(map(status_of, services)).most_common()


def by_age(services: Iterable[Service], own_bytes: Mapping[str, int | None], now: datetime) -> Sequence[AgeGroup]:
    """Return the forks by age, the youngest first; without groups that are empty."""
    groups: dict[str, list[Service]] = {title: [] for title, _ in _AGES}
    for fork in (service for service in services if service.origin is not None):
        groups[next(title for title, most in _AGES if now - fork.created_at < most)].append(fork)
    return [
        AgeGroup(title, len(forks), sum(own_bytes.get(fork.id) or 0 for fork in forks))
        for title, forks in groups.items()
        if forks
    ]


def savings(own_bytes: Mapping[str, int | None], usages: Mapping[str, Usage | None]) -> Savings:
    """Compare the services of which both sizes were measured."""
    known = [
        (own, usage.storage_mb * _MEGABYTE)
        for service_id, own in own_bytes.items()
        if own is not None and (usage := usages.get(service_id)) is not None and usage.storage_mb is not None
    ]
    return Savings(len(known), sum(apparent for _, apparent in known), sum(own for own, _ in known))


def warnings(services: Iterable[Service]) -> Sequence[tuple[Service, str]]:
    """Return what is wrong, or will be soon, with the service that it is about."""
    return [(service, text) for service in services for text in _warnings_of(service)]


def _warnings_of(service: Service) -> Iterable[str]:
    span = service.life_span
    said = (
        status_reason(service),
        service.storage_warning,
        archive_warning(service),
        restore_warning(service),
        None if span is None else span.warning,
    )
    return [text for text in said if text]
