"""Limits on the storage that one service may use: data, WAL and temporary files, enforced by the file system."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """The directories of a service that quotas are about; files in `exempt` do not count."""

    root: Path
    data: Path
    exempt: Path


class Quotas:
    """Limits on the storage of each service; this class limits nothing."""

    def describe(self) -> str:
        """Say in a sentence what is enforced."""
        raise NotImplementedError

    def enclose(self, place: Place) -> None:
        """Count all files in the directories of a service, whose server does not run, for that service."""

    def adopt(self, place: Place, tree: Path) -> None:
        """Count a directory of another service for this one, into whose directories it will be renamed."""

    def apply(self, place: Place) -> None:
        """Set the limit of a service whose data directory exists and whose server does not run; may run again."""

    def free_bytes(self, place: Place) -> int | None:
        """Return how many bytes the service may still write; None when nothing limits it."""
        return None


@dataclass(frozen=True)
class NoQuotas(Quotas):
    """Storage without a limit for each service."""

    reason: str

    def describe(self) -> str:
        """Say why nothing is enforced."""
        return f"The storage of a service is not limited: {self.reason}."
