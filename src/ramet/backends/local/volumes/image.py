"""Create image files with a file system that can share blocks, and identify them."""

import os
import shutil
import uuid
from pathlib import Path

from ramet.backends.local.volumes.disk_usage import free_bytes
from ramet.errors import Exhausted, Failed, Invalid
from ramet.machine.programs import run

MINIMUM_BYTES = 320 * 1024**2  # mkfs.xfs refuses less than 300 MB
_DEFAULT_MINIMUM_BYTES = 1024**3
_MKFS_SECONDS = 300

# The offset of the file system's identifier in its superblock (xfs_format.h, btrfs_tree.h).
_IDENTIFIER_OFFSETS = {"xfs": 32, "btrfs": 65536 + 32}


def why_impossible(file_system: str) -> str | None:
    """Return the reason why no image can be created and mounted here; None when none is known."""
    if os.geteuid() != 0:
        return "only root can mount an image"
    for program in (f"mkfs.{file_system}", "mount", "losetup"):
        if shutil.which(program) is None:
            return f"the program {program} is not installed"
    if not Path("/dev/loop-control").exists():
        return "the kernel offers no loop devices"
    return None


def default_size(root: Path) -> int:
    """Return half of the free space, but at least 1 GiB."""
    return max(free_bytes(root) // 2, _DEFAULT_MINIMUM_BYTES)


def make_image(image: Path, file_system: str, size_bytes: int) -> str:
    """Create a sparse file with an empty file system, and return its identifier."""
    _check_size(image, size_bytes)
    identifier = str(uuid.uuid4())
    with image.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(size_bytes)
    run(_mkfs(image, file_system, identifier), timeout_seconds=_MKFS_SECONDS)
    with image.open("rb") as file:
        os.fsync(file.fileno())
    return identifier


def identifier_of(image: Path, file_system: str) -> str:
    """Return the identifier in the superblock of an image; it need not be mounted."""
    with image.open("rb") as file:
        file.seek(_IDENTIFIER_OFFSETS[file_system])
        found = file.read(16)
    if len(found) < 16:
        raise Failed("POOL_IMAGE_DAMAGED", f"{image} is too short to contain a file system. Restore it from a backup")
    return str(uuid.UUID(bytes=found))


def _check_size(image: Path, size_bytes: int) -> None:
    if size_bytes < MINIMUM_BYTES:
        raise Invalid(
            "IMAGE_TOO_SMALL", f"The size of an image must be at least {MINIMUM_BYTES:,} bytes (got {size_bytes:,})"
        )
    free = free_bytes(image.parent)
    if size_bytes > free:
        raise Exhausted(
            "NOT_ENOUGH_DISK",
            f"An image of {size_bytes:,} bytes does not fit at {image}: {free:,} bytes are free. Choose a smaller size",
        )


def _mkfs(image: Path, file_system: str, identifier: str) -> list[str]:
    if file_system == "xfs":
        return ["mkfs.xfs", "-q", "-f", "-m", f"reflink=1,uuid={identifier}", str(image)]
    return ["mkfs.btrfs", "-q", "-f", "-U", identifier, str(image)]
