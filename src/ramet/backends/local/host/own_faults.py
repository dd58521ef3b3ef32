"""Errors of this process and of its host: no free file descriptor, no memory, a disk that cannot be read.

They say nothing about the state of a server. Only "no such file" or "no such process" shows that something is gone.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ramet.errors import Unseen

GONE = (FileNotFoundError, NotADirectoryError, ProcessLookupError)
_OF_DISK = frozenset(
    {
        errno.EIO,
        errno.EUCLEAN,  # XFS and ext4 for damaged metadata, and EBADMSG where its checksum is wrong
        errno.EBADMSG,
        errno.ENODATA,  # the kernel for a damaged medium, and the next two for other errors of a device (blk-core.c)
        errno.EREMOTEIO,
        errno.EILSEQ,
    }
)
_OWN = _OF_DISK | frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENOSPC,
        errno.EACCES,
        errno.EPERM,
        errno.EADDRNOTAVAIL,  # no port is left to connect from
    }
)


def is_own(error: BaseException) -> bool:
    """Tell whether a connection error was caused by this process or host; a host name that is not found counts."""
    return isinstance(error, Unseen | socket.gaierror) or (isinstance(error, OSError) and error.errno in _OWN)


def is_of_disk(error: OSError) -> bool:
    """Tell whether a disk, or the file system on it, is damaged where something was read or written."""
    return error.errno in _OF_DISK


def unseen(what: str, reason: object) -> Unseen:
    """Return the error for a state that could not be read."""
    return Unseen(
        "CANNOT_LOOK",
        f"{what[:1].upper()}{what[1:]} cannot be checked now: {reason}",
        "Its state is unknown until then.",
    )


@contextmanager
def looking_at(what: str) -> Iterator[None]:
    """Raise Unseen when an operating system error prevents this process from reading the state of `what`."""
    try:
        yield
    except OSError as error:
        raise unseen(what, error.strerror or error) from error
