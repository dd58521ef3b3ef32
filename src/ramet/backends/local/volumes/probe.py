"""Find out which drivers the file system of a directory supports, by trying."""

import tempfile
from pathlib import Path

from ramet.backends.local.volumes.btrfs import BtrfsDriver, is_btrfs
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.reflink import ReflinkDriver

DRIVERS: dict[str, Driver] = {driver.name: driver for driver in (ReflinkDriver(), BtrfsDriver(), CopyDriver())}

_PROBE_BYTES = 64 * 1024


def best_driver(directory: Path) -> str:
    """Return the name of the best driver that the file system of `directory` supports."""
    if is_btrfs(directory):
        return "btrfs"
    return "reflink" if clones_files(directory) else "copy"


def supports(directory: Path, driver: str) -> bool:
    """Tell whether the file system of `directory` supports this driver."""
    needed = {"btrfs": is_btrfs, "reflink": clones_files}.get(driver)
    return needed is None or needed(directory)


def clones_files(directory: Path) -> bool:
    """Tell whether files in `directory` can share blocks."""
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=directory) as scratch:
        source = Path(scratch, "source")
        source.write_bytes(bytes(_PROBE_BYTES))
        try:
            ReflinkDriver().clone_file(source, Path(scratch, "target"))
        except OSError:
            return False
    return True
