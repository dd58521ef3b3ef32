"""The SHA-256 of each WAL file that was sent to the archive, kept on the host: one line each, in order."""

import os
from collections.abc import Set

from ramet.archive.layout import is_wal_file
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.wal.digests import parsed

_FILE = "off_host_digests"


def record_digest(paths: ServicePaths, name: str, digest: str) -> None:
    """Remember the digest of a file that was sent. May run twice. A full disk may have cut the line before it."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with files.opened(paths.root / _FILE, flags) as descriptor, open(descriptor, "w", closefd=False) as file:
        file.write(f"\n{name} {digest}\n")


def sent_digests(paths: ServicePaths) -> dict[str, str]:
    """Return the digests by the name of the file, without those that were cut off."""
    known = parsed(files.read(paths.root / _FILE))
    return {name: digest for name, digest in known.items() if is_wal_file(name)}


def forget_digests(paths: ServicePaths, names: Set[str]) -> None:
    """Drop the digests of files that were removed from the archive. One recorded at the same time may get lost too."""
    known = sent_digests(paths)
    if not names.isdisjoint(known):
        kept = "".join(f"{name} {digest}\n" for name, digest in known.items() if name not in names)
        files.write(paths.root / _FILE, kept)
