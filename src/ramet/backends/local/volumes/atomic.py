"""Create and remove files and trees atomically: an incomplete one has a temporary name until it is complete."""

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ramet.backends.local.host.own_faults import is_of_disk
from ramet.backends.local.volumes import helper_process
from ramet.backends.local.volumes.syscalls import move_new
from ramet.errors import Exhausted

Remove = Callable[[Path], None]

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_REMOVE_ATTEMPTS = 5


@contextlib.contextmanager
def built_at(target: Path, remove: Remove, *, sweep: bool = True) -> Iterator[Path]:
    """Yield a temporary path; it is renamed to `target` at the end, or removed when the body raises.

    Without `sweep`, leftovers of earlier attempts stay: searching a directory of thousands of files takes longer than
    copying one file.
    """
    _refuse_existing(target)
    if sweep:
        remove_partials(target, remove)
    partial = partial_name(target)
    try:
        with _no_room_named(target):
            yield partial
            move_new(partial, target)
    except BaseException:
        remove(partial)
        raise


def removed_from(target: Path, remove: Remove) -> None:
    """Remove `target` and its leftovers; after a crash nothing incomplete has the name `target`."""
    with contextlib.suppress(FileNotFoundError):
        target.rename(partial_name(target))
    remove_partials(target, remove)


def partial_name(target: Path) -> Path:
    """Return a new temporary name in the directory of `target`."""
    return target.with_name(f"{target.name}.partial-{secrets.token_hex(4)}")


def remove_partials(target: Path, remove: Remove) -> None:
    """Remove the incomplete copies of `target` that a crash left behind."""
    prefix = f"{target.name}.partial-"
    with contextlib.suppress(FileNotFoundError):
        siblings = [path for path in target.parent.iterdir() if path.name.startswith(prefix)]
        remove_all(*(partial(remove, sibling) for sibling in siblings))


def remove_all(*removals: Callable[[], object]) -> None:
    """Call each of these, although the disk refuses what an earlier one removes; raise its first error at the end.

    What one cannot do on a storage that is full, it may be able to do once the others have freed some of it.
    """
    refused: list[OSError] = []
    for remove in removals:
        try:
            remove()
        except OSError as error:
            if not _is_of_storage(error):
                raise
            refused.append(error)
    if refused:
        raise refused[0]


def _is_of_storage(error: OSError) -> bool:
    """Tell whether an error leaves other things that can be removed: the disk is damaged in one place, or is full."""
    return is_of_disk(error) or error.errno in NO_ROOM


def remove_files(path: Path) -> None:
    """Remove a directory, a file or a link; nothing to remove is no error.

    What the disk, or a full storage, refuses to remove is left with the directories above it, and its error is raised
    at the end.
    """
    for attempt in range(1, _REMOVE_ATTEMPTS + 1):
        try:
            if path.is_dir() and not path.is_symlink():
                _remove_directory(path)
            path.unlink(missing_ok=True)
        except OSError as error:
            # Another process adds entries to the tree, or removes them, at the same time.
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY) or attempt == _REMOVE_ATTEMPTS:
                raise
        else:
            return


def _remove_directory(path: Path) -> None:
    refused: list[OSError] = []

    def go_on(_act: object, _path: str, raised: tuple[type[BaseException], BaseException, object]) -> None:
        error = raised[1]
        is_above = bool(refused) and isinstance(error, OSError) and error.errno == errno.ENOTEMPTY
        if isinstance(error, OSError) and _is_of_storage(error):
            refused.append(error)
        elif not is_above:
            raise error

    shutil.rmtree(path, onerror=go_on)
    if refused:
        raise refused[0]


def remove_apart(path: Path) -> None:
    """Remove a tree in a helper process."""
    if os.path.lexists(path):
        helper_process.call(remove_files, path)


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


@contextlib.contextmanager
def _no_room_named(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise Exhausted(
            "NOT_ENOUGH_DISK",
            f"There is not enough disk space for {target}. Free space or enlarge the storage",
            str(error),
        ) from error
