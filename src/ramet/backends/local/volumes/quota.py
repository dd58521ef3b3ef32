"""How much of the storage one service may take: data, WAL and temporary files alike, held by the file system."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ramet.backends.local.volumes.btrfs_quota import BtrfsQuotas, enable
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.project_quota import ProjectQuotas, is_enforced

SETTING = "RAMET_SERVICE_QUOTA_GBS"


@dataclass(frozen=True)
class Place:
    """The directories of a service that matter here: what lies in `exempt` does not count."""

    root: Path
    data: Path
    exempt: Path


class Quotas(Protocol):
    """What holds services to a share of the storage."""

    def describe(self) -> str:
        """Say in a sentence what is enforced."""

    def enclose(self, place: Place) -> None:
        """Have all that is made in the directories of a service, whose server does not run, count for it."""

    def apply(self, place: Place) -> None:
        """Set the limit of a service whose data are there and whose server does not run; may run again."""

    def free_bytes(self, place: Place) -> int | None:
        """Return what the service may still write; None where nothing limits it."""


@dataclass(frozen=True)
class NoQuotas:
    """Storage of which each service may take all."""

    reason: str

    def describe(self) -> str:
        """Say why nothing is enforced."""
        return f"The storage of a service is not limited: {self.reason}."

    def enclose(self, place: Place) -> None:
        """Have nothing to count."""

    def apply(self, place: Place) -> None:
        """Have nothing to limit."""

    def free_bytes(self, place: Place) -> int | None:
        """Know of no limit."""
        return None


def open_quotas(pool: Pool, limit_bytes: int | None) -> Quotas:
    """Return what the pool's file system enforces, where a limit is wanted."""
    if limit_bytes is None:
        return NoQuotas(f"{SETTING} is not set")
    if os.geteuid() != 0:
        return NoQuotas("Ramet does not run as root")
    if pool.driver.name == "btrfs":
        try:
            enable(pool.path)
        except OSError as error:
            return NoQuotas(f"btrfs here has no simple quotas, which came with Linux 6.7 ({error.strerror})")
        return BtrfsQuotas(limit_bytes)
    if is_enforced(pool.path):
        return ProjectQuotas(pool.path, limit_bytes)
    return NoQuotas(
        f"the file system of {pool.path} enforces no project quotas (XFS that was mounted with prjquota by a kernel"
        " that has them), and the driver is not btrfs"
    )
