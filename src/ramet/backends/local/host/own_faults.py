"""Faults of this process and of its host: no descriptor left, no memory, a disk that cannot be read.

They say nothing about the server that was to be looked at. Only that something is not there says that it is gone.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ramet.errors import Unseen

GONE = (FileNotFoundError, NotADirectoryError, ProcessLookupError)
_OWN = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENOSPC,
        errno.EIO,
        errno.EACCES,
        errno.EPERM,
        errno.EADDRNOTAVAIL,  # no port is left to connect from
    }
)


def is_own(error: BaseException) -> bool:
    """Tell whether an error of a connection comes from this side; a name of this host that is not found does."""
    return isinstance(error, Unseen | socket.gaierror) or (isinstance(error, OSError) and error.errno in _OWN)


def unseen(what: str, reason: object) -> Unseen:
    """Return the error that says that something could not be looked at."""
    return Unseen(
        "CANNOT_LOOK",
        f"{what[:1].upper()}{what[1:]} cannot be looked at now: {reason}",
        "Its state is unknown until then.",
    )


@contextmanager
def looking_at(what: str) -> Iterator[None]:
    """Raise Unseen where an operating system error keeps this process from looking at `what`."""
    try:
        yield
    except OSError as error:
        raise unseen(what, error.strerror or error) from error
