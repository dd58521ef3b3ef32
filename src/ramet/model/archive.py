"""Whether a service is kept in the off-host archive, and how far the archive is behind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ramet.model.environment import Environment
from ramet.model.gaps import Gap
from ramet.model.service import Service, is_standby

SETTING = "archive"


def is_archived(service: Service) -> bool:
    """Tell whether a service is archived off the host: as it was set; by default PROD services are, DEV ones not.

    A standby of a database elsewhere is archived from its promotion on.
    """
    if is_standby(service):
        return False
    chosen: bool | None = service.settings.get(SETTING)
    return service.environment is Environment.PROD if chosen is None else chosen


def awaits_archive(service: Service, time: datetime) -> bool:
    """Tell whether WAL from before a time is still to be sent to the archive, and must not be removed."""
    return is_archived(service) and (service.archived_until is None or service.archived_until < time)


@dataclass(frozen=True)
class ArchiveSpan:
    """The times that the off-host archive holds of a service, both included, except those in gaps, in their order."""

    earliest: datetime
    latest: datetime
    gaps: Sequence[Gap] = ()

    def contains(self, time: datetime) -> bool:
        """Tell whether the archive holds the state of a time."""
        return self.earliest <= time <= self.latest and not any(gap.contains(time) for gap in self.gaps)

    def rest_of(self, gap: Gap) -> Iterator[Gap]:
        """Yield the parts of a gap that the archive does not fill."""
        begins_at = gap.begins_at
        for begin, end in self._periods():
            if end <= begins_at or (gap.ends_at is not None and begin >= gap.ends_at):
                continue
            if begin > begins_at:
                yield replace(gap, begins_at=begins_at, ends_at=begin)
            begins_at = end
        if gap.ends_at is None or begins_at < gap.ends_at:
            yield replace(gap, begins_at=begins_at)

    def _periods(self) -> Iterator[tuple[datetime, datetime]]:
        begin = self.earliest
        for gap in self.gaps:
            yield begin, gap.begins_at
            begin = gap.ends_at or self.latest
        yield begin, self.latest


def span_of(service: Service) -> ArchiveSpan | None:
    """Return the times that the off-host archive holds of a service, which may be deleted; None: none."""
    if service.archive_from is None or service.archived_until is None or service.archived_until < service.archive_from:
        return None
    earliest, latest = service.archive_from, service.archived_until
    gaps = [gap.until(latest) for gap in service.archive_gaps if gap.begins_at < latest and gap.ends_after(earliest)]
    return ArchiveSpan(earliest, latest, gaps)


def gaps_with(service: Service, found: Sequence[Gap]) -> tuple[Gap, ...]:
    """Return the gaps in what the archive has of a service: those known before, and those found.

    They stay until the archive is cleaned up: which base backup is its oldest one is not known before.
    """
    known = {gap.begins_at: gap for gap in (*service.archive_gaps, *found)}
    return tuple(known[begin] for begin in sorted(known))


def gaps_since(service: Service, earliest: datetime | None) -> tuple[Gap, ...]:
    """Return the known gaps in what the archive has of a service from its oldest base backup on; None: it has none."""
    return tuple(gap for gap in service.archive_gaps if earliest is None or gap.ends_after(earliest))


def archive_warning(service: Service) -> str | None:
    """Return what is wrong with the off-host archive of a service: what keeps it behind, and what drills have found."""
    if not is_archived(service):
        return None
    found = [each for each in (service.archive_problem, service.archive_drill_failure) if each is not None]
    return ". ".join(each.rstrip(".") for each in found) or None


def lag_seconds(service: Service, now: datetime) -> float | None:
    """Return how many seconds of commits the loss of the host would take; None without a complete base backup."""
    if service.archived_until is None:
        return None
    return max(0.0, (now - service.archived_until).total_seconds())
