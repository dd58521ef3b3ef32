"""The pool of a data root: the file system that stores all its services, and the driver that copies their trees.

The first opening decides how the pool is created, and records it; each later one makes the same pool available again,
for instance after a reboot.
"""

import contextlib
import errno
import fcntl
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.volumes import image as images
from ramet.backends.local.volumes.atomic import NO_ROOM
from ramet.backends.local.volumes.disk_usage import free_bytes
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.mounts import mount_image, mounted_at, unmount
from ramet.backends.local.volumes.pool_record import Record, read_record, write_record
from ramet.backends.local.volumes.probe import DRIVERS, best_driver, supports
from ramet.errors import Error, Exhausted, Failed, Invalid, Unavailable

_QUOTA_OPTION = {"xfs": "prjquota"}
_IMAGE_FILE_SYSTEMS = {"reflink": "xfs", "btrfs": "btrfs"}
_LOCK_SECONDS = 120.0
_BLOCK_BYTES = 512
_MIB = 1024**2
_NEW_SERVICE_BYTES = 128 * _MIB
_WAL_BYTES = 64 * _MIB
_FITRIM = 0xC0185879
_TRIMMED_BYTES = _MIB  # smaller holes are not worth the time
# Servers that run as another user enter their own directories; no other user may list the pool.
_PASS_THROUGH = 0o711


@dataclass(frozen=True)
class Pool:
    """An open pool: services are stored under `path`, and `driver` copies their trees."""

    root: Path
    path: Path
    driver: Driver
    image: Path | None
    reason: str

    def free_bytes(self) -> int:
        """Return the bytes that can still be written, which may be less than a sparse image has free."""
        inside = free_bytes(self.path)
        if self.image is None:
            return inside
        status = os.statvfs(self.path)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        taken = self.image.stat().st_blocks * _BLOCK_BYTES
        return min(inside, free_bytes(self.root) + max(taken - used, 0))

    def total_bytes(self) -> int:
        """Return the size of the pool's file system."""
        status = os.statvfs(self.path)
        return status.f_blocks * status.f_frsize

    def check_room(self, copied_bytes: int = 0) -> None:
        """Raise Exhausted when there is no room for a new service with so many bytes of copied data."""
        self._check_free(_NEW_SERVICE_BYTES + copied_bytes)

    def check_wal_room(self) -> None:
        """Raise Exhausted where a server that is made to begin a WAL segment could fail: it would go down."""
        self._check_free(_WAL_BYTES)

    def _check_free(self, needed_bytes: int) -> None:
        free = self.free_bytes()
        if free < needed_bytes:
            raise Exhausted(
                "NOT_ENOUGH_DISK",
                f"The storage has {free // _MIB} MiB left, and this needs {math.ceil(needed_bytes / _MIB)} MiB",
                f"Delete services that are not needed, or enlarge the storage at {self.path}.",
            )

    def describe(self) -> str:
        """Describe the pool and the cost of a fork in it, in a few sentences."""
        where = f"image {self.image} mounted at {self.path}" if self.image else f"directory {self.path}"
        return f"{self.driver.name}, {where}: {self.reason}. {self.driver.describe()}{self._promise()}"

    def _promise(self) -> str:
        """Return a warning when a sparse image may grow by more than the disk below it has free."""
        if self.image is None:
            return ""
        status, outside = self.image.stat(), free_bytes(self.root)
        growth = status.st_size - status.st_blocks * _BLOCK_BYTES
        if growth <= outside:
            return ""
        return f" It may grow by {growth // _MIB} MiB, but the disk below it has only {outside // _MIB} MiB left."

    def discard_free_blocks(self) -> None:
        """Return the blocks that the image's file system does not use to the disk below it (FITRIM)."""
        if self.image is None:
            return
        with files.opened(self.path) as descriptor:
            try:
                fcntl.ioctl(descriptor, _FITRIM, struct.pack("=QQQ", 0, 2**64 - 1, _TRIMMED_BYTES))
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:  # the disk below does not support holes in files
                    raise


def open_pool(
    root: Path, *, driver: str = "auto", image_size_bytes: int | None = None, has_quotas: bool = False
) -> Pool:
    """Make the pool of `root` available; the first call creates it.

    `driver` is auto, reflink, btrfs or copy; `image_size_bytes` is used for a new image only, None means half of the
    free space. `has_quotas` takes effect when an image is mounted. May run again, and in several processes at once.
    Raises Invalid when `driver` differs from the recorded one, Failed when the recorded pool cannot be opened.
    """
    if driver != "auto" and driver not in DRIVERS:
        raise Invalid("STORAGE_DRIVER_UNKNOWN", f"storage driver must be auto, reflink, btrfs or copy (got {driver!r})")
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root):
        record = read_record(_record_path(root)) or _make(root, driver, image_size_bytes)
        if driver not in ("auto", record.driver):
            raise Invalid(
                "STORAGE_DRIVER_DIFFERS",
                f"The pool at {root} was created with the driver {record.driver}; use another data root for {driver}",
            )
        return _attach(root, record, has_quotas=has_quotas)


def close_pool(pool: Pool) -> None:
    """Unmount the pool's image, if it has one. Raises WrongState naming the processes that still use it."""
    if pool.image is None:
        return
    with _locked(pool.root):
        if mounted_at(pool.path):
            unmount(pool.path)


def _make(root: Path, driver: str, size_bytes: int | None) -> Record:
    """Decide how the pool is created, create its image if it needs one, and record it."""
    for file_system in _IMAGE_FILE_SYSTEMS.values():
        image = root / f"pool.{file_system}"
        if image.exists():
            raise Failed(
                "POOL_RECORD_MISSING",
                f"{_record_path(root)} is missing, but {image} exists. Restore the file, or move the image away",
            )
    record = _without_image(root, driver) or _with_image(root, driver, size_bytes)
    write_record(_record_path(root), record)
    return record


def _without_image(root: Path, driver: str) -> Record | None:
    chosen = best_driver(root) if driver == "auto" else driver
    if driver == "auto" and chosen == "copy":
        return None
    return Record(chosen, f"the file system of {root} supports it") if supports(root, chosen) else None


def _with_image(root: Path, driver: str, size_bytes: int | None) -> Record:
    wanted = "reflink" if driver == "auto" else driver
    file_system = _IMAGE_FILE_SYSTEMS[wanted]
    why = images.why_impossible(file_system)
    if why is None:
        try:
            return _make_image(root, wanted, file_system, size_bytes)
        except (Failed, Exhausted) as error:
            if driver != "auto" or (size_bytes is not None and isinstance(error, Exhausted)):
                raise
            why = f"no image could be created: {error}"
    if driver == "auto":
        return Record("copy", f"the file system of {root} cannot share blocks, and {why}")
    raise Invalid(
        "STORAGE_DRIVER_UNSUPPORTED",
        f"The file system of {root} does not support the driver {driver}, and {why}."
        " Use another data root, or the driver copy",
    )


def _make_image(root: Path, driver: str, file_system: str, size_bytes: int | None) -> Record:
    """Create an image with a temporary name; it is renamed after the record is written."""
    partial = _partial_image(root, file_system)
    path = _make_path(root)
    if mounted_at(path):
        unmount(path)
    size_bytes = size_bytes or images.default_size(root)
    try:
        identifier = images.make_image(partial, file_system, size_bytes)
        mount_image(partial, path, file_system)
        unmount(path)
    except Error:
        partial.unlink(missing_ok=True)
        raise
    reason = f"the file system of {root} cannot share blocks"
    return Record(driver, reason, f"pool.{file_system}", file_system, identifier, size_bytes)


def _attach(root: Path, record: Record, *, has_quotas: bool) -> Pool:
    path = _make_path(root)
    driver = DRIVERS[record.driver]
    if record.image is None or record.file_system is None:
        if not _still_supports(path, record.driver):
            raise Failed(
                "POOL_STORAGE_CHANGED",
                f"{_record_path(root)} names the driver {record.driver}, which the file system of {path} lacks."
                " Mount the file system on which the pool was created",
            )
        return Pool(root, path, driver, None, record.reason)
    image = _checked_image(root, record, record.file_system)
    mount = mounted_at(path)
    if mount is None:
        _mount(image, path, record.file_system, has_quotas=has_quotas)
    elif mount.image != image:
        raise Failed("POOL_PATH_TAKEN", f"{mount.source} is mounted at {path} in place of {image}. Unmount it")
    return Pool(root, path, driver, image, record.reason)


def _still_supports(path: Path, driver: str) -> bool:
    """Tell whether the file system of a recorded pool supports its driver.

    One that is full is assumed to: nothing can be tried there before the reserve is removed, which needs an open pool.
    """
    try:
        return supports(path, driver)
    except Exhausted:
        return True
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return True


def _checked_image(root: Path, record: Record, file_system: str) -> Path:
    """Return the path of the image after comparing its identifier with the recorded one."""
    image = root / f"pool.{file_system}"
    partial = _partial_image(root, file_system)
    if not image.exists() and partial.exists() and images.identifier_of(partial, file_system) == record.identifier:
        partial.rename(image)
    if not image.exists():
        raise Failed("POOL_IMAGE_MISSING", f"The image {image}, which stores all services, is missing. Restore it")
    if images.identifier_of(image, file_system) != record.identifier:
        raise Failed(
            "POOL_IMAGE_FOREIGN", f"{image} is not the image that {_record_path(root)} names. Restore that image"
        )
    return image


def _mount(image: Path, path: Path, file_system: str, *, has_quotas: bool) -> None:
    if os.geteuid() != 0:
        raise Failed("POOL_NEEDS_ROOT", f"{image} is not mounted, and only root can mount it. Run this command as root")
    mount_image(image, path, file_system, _QUOTA_OPTION.get(file_system, "") if has_quotas else "")
    path.chmod(_PASS_THROUGH)


def _make_path(root: Path) -> Path:
    path = root / "pool"
    if not path.exists():
        path.mkdir(_PASS_THROUGH)
        path.chmod(_PASS_THROUGH)
    return path


def _partial_image(root: Path, file_system: str) -> Path:
    return root / f"pool.{file_system}.partial"


def _record_path(root: Path) -> Path:
    return root / "pool.json"


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Prevent other processes from creating, mounting or unmounting the same pool."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.locked(root / "pool.lock", timeout_seconds=_LOCK_SECONDS))
        except TimeoutError as error:
            raise Unavailable(
                "POOL_LOCKED", f"Another process has been opening the pool at {root} for {_LOCK_SECONDS:g} s"
            ) from error
        yield
