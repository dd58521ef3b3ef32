"""Mount and unmount file system images, and list mounts. Mounting needs root."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import psutil

from ramet.errors import Failed, WrongState
from ramet.machine.programs import run
from ramet.machine.waiting import wait_until

_OPTIONS = "loop,nodev,nosuid,noatime"
_BUSY_STATUS = "target is busy"
_UNMOUNT_SECONDS = 3.0
_UNMOUNT_PAUSE_SECONDS = 0.05
_SHOWN_USERS = 10


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    path: Path
    file_system: str
    source: str

    @property
    def image(self) -> Path | None:
        """Return the file behind a loop device; None for every other device."""
        with contextlib.suppress(OSError):
            return Path(Path("/sys/block", Path(self.source).name, "loop/backing_file").read_text().rstrip("\n"))
        return None


def mounted_at(path: Path) -> Mount | None:
    """Return what is mounted at exactly this path; the topmost when there are several."""
    wanted = str(path.resolve())
    found = [mount for mount in psutil.disk_partitions(all=True) if mount.mountpoint == wanted]
    return Mount(path.resolve(), found[-1].fstype, found[-1].device) if found else None


def mounts_below(directory: Path) -> list[Path]:
    """Return the mount points inside a directory."""
    wanted = directory.resolve()
    points = [Path(mount.mountpoint) for mount in psutil.disk_partitions(all=True)]
    return [point for point in points if point != wanted and point.is_relative_to(wanted)]


def mount_image(image: Path, path: Path, file_system: str, option: str = "") -> None:
    """Mount an image through a loop device that is removed at unmount; without `option` where that is refused."""
    command = ["mount", "-t", file_system, "-o", f"{_OPTIONS},{option}".rstrip(","), str(image), str(path)]
    try:
        run(command)
    except Failed:
        if not option:
            raise
        mount_image(image, path, file_system)
        return
    mount = mounted_at(path)
    if mount is None:
        raise Failed("MOUNT_VANISHED", f"{image} was mounted at {path}, but the mount has disappeared")
    # Without direct I/O all data is cached twice; not all outer file systems (tmpfs) support it.
    with contextlib.suppress(Failed):
        run(["losetup", "--direct-io=on", mount.source])


def unmount(path: Path) -> None:
    """Unmount; wait briefly for processes that are ending. Raises WrongState naming the processes that use it."""
    if not wait_until(lambda: _unmounted(path), _UNMOUNT_SECONDS, _UNMOUNT_PAUSE_SECONDS):
        users = ", ".join(users_of(path)[:_SHOWN_USERS]) or "something that /proc does not show"
        raise WrongState("POOL_BUSY", f"{path} is still in use by {users}. Stop it and try again")


def _unmounted(path: Path) -> bool:
    try:
        run(["umount", str(path)])
    except Failed as error:
        if _BUSY_STATUS not in error.details:
            raise
        return False
    return True


def users_of(path: Path) -> list[str]:
    """Return name and pid of the processes whose working directory, root, program or an open file is in `path`."""
    wanted = path.resolve()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if _uses(process, wanted):
                name = (process / "comm").read_text().strip()
                found.append(f"{name} (process {process.name})")
    return found


def _uses(process: Path, wanted: Path) -> bool:
    links = [process / "cwd", process / "root", process / "exe", *(process / "fd").iterdir()]
    for link in links:
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(wanted):
                return True
    return False
