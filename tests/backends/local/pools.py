"""Pools of every driver for tests: small images that are made, mounted, and gone at the end."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes.image import why_impossible
from ramet.backends.local.volumes.mounts import mounted_at
from ramet.backends.local.volumes.pool import Pool, close_pool, open_pool
from ramet.errors import Error

DRIVERS = ("reflink", "btrfs", "copy")

_IMAGE_BYTES = 1024**3


@contextlib.contextmanager
def make_pool(root: Path, driver: str, *, image_size_bytes: int = _IMAGE_BYTES) -> Iterator[Pool]:
    """Open a pool under `root` and close it at the end; skip the test where the host cannot have one."""
    _skip_where_impossible(driver)
    _let_others_pass(root)
    pool = open_pool(root, driver=driver, image_size_bytes=image_size_bytes)
    try:
        yield pool
    finally:
        _close(pool)


def _skip_where_impossible(driver: str) -> None:
    file_system = {"reflink": "xfs", "btrfs": "btrfs"}.get(driver)
    reason = why_impossible(file_system) if file_system else None
    if reason:
        pytest.skip(f"no pool of driver {driver}: {reason}")


def _let_others_pass(root: Path) -> None:
    """Open the way for servers of another user: the temporary directories of pytest are their owner's alone."""
    root.mkdir(parents=True, exist_ok=True)
    for directory in (root, *root.parents):
        if directory.stat().st_uid == os.geteuid() and not directory.stat().st_mode & 0o001:
            directory.chmod(directory.stat().st_mode | 0o011)


def _close(pool: Pool) -> None:
    try:
        close_pool(pool)
    except Error:
        # A process that still uses it is the failure to report; the mount must not outlive the run all the same.
        if mounted_at(pool.path):
            subprocess.run(["umount", "--lazy", str(pool.path)], check=True)
        raise
