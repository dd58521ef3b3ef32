"""Find out which storage quotas the file system of a pool can enforce, by trying."""

import os

from ramet.backends.local.volumes.btrfs_quota import BtrfsQuotas, enable
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.project_quota import ProjectQuotas, is_enforced
from ramet.backends.local.volumes.quota import NoQuotas, Quotas

SETTING = "RAMET_SERVICE_QUOTA_GBS"


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
