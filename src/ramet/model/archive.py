"""Whether a service is kept in the off-host archive, and how far the archive is behind."""

from dataclasses import dataclass
from datetime import datetime

from ramet.model.environment import Environment
from ramet.model.service import Service

SETTING = "archive"


def is_archived(service: Service) -> bool:
    """Tell whether a service is archived off the host: as it was set; by default PROD services are, DEV ones not."""
    chosen: bool | None = service.settings.get(SETTING)
    return service.environment is Environment.PROD if chosen is None else chosen


def awaits_archive(service: Service, time: datetime) -> bool:
    """Tell whether WAL from before a time is still to be sent to the archive, and must not be removed."""
    return is_archived(service) and (service.archived_until is None or service.archived_until < time)


@dataclass(frozen=True)
class ArchiveSpan:
    """The times that the off-host archive holds of a service, both included; holes that were reported are not known."""

    earliest: datetime
    latest: datetime

    def contains(self, time: datetime) -> bool:
        """Tell whether the archive holds the state of a time."""
        return self.earliest <= time <= self.latest


def span_of(service: Service) -> ArchiveSpan | None:
    """Return the times that the off-host archive holds of a service, which may be deleted; None: none."""
    if service.archive_from is None or service.archived_until is None or service.archived_until < service.archive_from:
        return None
    return ArchiveSpan(service.archive_from, service.archived_until)


def archive_warning(service: Service) -> str | None:
    """Return what is wrong with the off-host archive of a service: what keeps it behind, and what drills have found."""
    found = [each for each in (service.archive_problem, service.archive_drill_failure) if each is not None]
    return ". ".join(each.rstrip(".") for each in found) or None


def lag_seconds(service: Service, now: datetime) -> float | None:
    """Return how many seconds of commits the loss of the host would take; None without a complete base backup."""
    if service.archived_until is None:
        return None
    return max(0.0, (now - service.archived_until).total_seconds())
