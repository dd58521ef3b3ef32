"""Keeping the directory of a service from being handed to another id while something of it goes to the archive, and
the archive from data that may be taken back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ramet.backends.interface.archive import ARCHIVE_BUSY
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.errors import Failed, Unavailable

_WAIT_SECONDS = 1.0


@contextmanager
def kept_in_place(paths: ServicePaths, lock: Path, pg_major: int) -> Iterator[None]:
    """Hold a lock of a service's directory. Raises Unavailable when that is in use, or its data is being replaced or
    has another version, Failed when its version cannot be read, FileNotFoundError when there is none.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(files.locked(lock, timeout_seconds=_WAIT_SECONDS))
            check_not_replaced(paths)
            version = int(files.read_existing(paths.data / "PG_VERSION"))
        except TimeoutError as error:
            raise Unavailable(ARCHIVE_BUSY, f"Other work uses the archive of service {paths.service_id}") from error
        except ValueError as error:
            raise Failed(
                "DATA_DAMAGED", f"The file PG_VERSION of service {paths.service_id} names no version"
            ) from error
        if version != pg_major:
            raise Unavailable(ARCHIVE_BUSY, f"Service {paths.service_id} has just been upgraded to {version}")
        yield


def check_not_replaced(paths: ServicePaths) -> None:
    """Raise Unavailable while the data of a service is being replaced, which may be undone.

    That takes no lock. So ask after a snapshot or a WAL file was found, and before it is used: an undone replacement
    ends after what it brought was removed. It ends with the directory of the copy, if it was never opened.
    """
    copy_id = files.read(paths.replaced_by)
    if copy_id and files.is_there(paths.root.with_name(copy_id)):
        raise Unavailable(ARCHIVE_BUSY, f"The data of service {paths.service_id} is being replaced")


def is_in_use(lock: Path) -> bool:
    """Tell whether a lock of a service's directory is held."""
    try:
        with files.locked(lock, timeout_seconds=0):
            return False
    except TimeoutError:
        return True
    except FileNotFoundError:
        return False
