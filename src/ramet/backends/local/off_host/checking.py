"""Reading the archive back: objects that were altered, damaged or removed there are found, some bytes at a time."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups, Checksum
from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.digests import sent_digests
from ramet.backends.local.off_host.progress import Base, CheckProgress, read_progress, write_progress
from ramet.errors import Failed


@dataclass(frozen=True)
class _Check:
    """One object that can be checked: its key, its size, and the function that raises Failed when it is not sound."""

    key: str
    size_bytes: int
    verify: Callable[[], None]


def check_archive(paths: ServicePaths, bucket: Bucket, name: str, budget_bytes: int) -> int:
    """Read objects of a service back, until a budget is used up, from where the last call ended; return the bytes.

    It is in the archive under `name`. At least one object is read. Raises Unavailable when the archive does not answer.
    """
    progress = read_progress(paths, CheckProgress)
    found = (*_base_checks(BaseBackups(bucket, name)), *_wal_checks(paths, WalArchive(bucket, name)))
    checks = {check.key: check for check in found}
    faults = {key: fault for key, fault in progress.faults.items() if key in checks}
    ordered = sorted(checks)
    read_bytes, after = 0, progress.after
    for key in [key for key in ordered if key > after] + [key for key in ordered if key <= after]:
        faults.pop(key, None)
        try:
            checks[key].verify()
        except Failed as error:
            faults[key] = error.message
        after, read_bytes = key, read_bytes + checks[key].size_bytes
        if read_bytes >= budget_bytes:
            break
    write_progress(paths, replace(progress, after=after, faults=faults))
    return read_bytes


def shown_faults(progress: CheckProgress) -> str | None:
    """Return what the checks found, in a sentence; None for nothing."""
    if not progress.faults:
        return None
    first = min(progress.faults)
    others = f" ({len(progress.faults) - 1} more such objects)" if len(progress.faults) > 1 else ""
    return f"{progress.faults[first]}{others}"


def concerns(progress: CheckProgress, name: str, newest: Base) -> bool:
    """Tell whether something is wrong with what a restore of the newest state needs."""
    prefix = layout.base_prefix(name, newest.backup_id)
    wal = (layout.wal_name(key) for key in progress.faults if key.startswith(layout.wal_prefix(name)))
    return any(key.startswith(prefix) for key in progress.faults) or any(
        segment is not None and segment >= newest.begin_segment for segment in wal
    )


def _base_checks(backups: BaseBackups) -> Iterator[_Check]:
    for backup_id in backups.ids():
        try:
            checksums = [] if backups.find(backup_id) is None else backups.parts(backup_id)
        except Failed as error:
            yield _Check(layout.info_key(backups.server, backup_id), 0, partial(_refuse, backups, backup_id, error))
            continue
        for number, checksum in enumerate(checksums):
            key = layout.part_key(backups.server, backup_id, number)

            def verify(backup_id: str = backup_id, number: int = number, checksum: Checksum = checksum) -> None:
                with _unless_removed(backups, backup_id):
                    backups.verify_part(backup_id, number, checksum)

            yield _Check(key, checksum.size_bytes, verify)


def _refuse(backups: BaseBackups, backup_id: str, error: Failed) -> None:
    """Raise what was found before the check had its turn: its description, a checksum or a part is damaged or lost."""
    with _unless_removed(backups, backup_id):
        raise error


@contextmanager
def _unless_removed(backups: BaseBackups, backup_id: str) -> Iterator[None]:
    """Let a base backup lack parts that was removed after the list was read: its description is removed first."""
    try:
        yield
    except Failed as error:
        if error.code != ARCHIVE_INCOMPLETE or backups.find(backup_id) is not None:
            raise


def _wal_checks(paths: ServicePaths, wal: WalArchive) -> Iterator[_Check]:
    """Yield the files that are there, and those that were sent and are not."""
    digests, sizes = sent_digests(paths), wal.sizes()
    for name in sorted(sizes.keys() | digests.keys()):

        def verify(name: str = name) -> None:
            try:
                digest = hashlib.sha256(wal.download(name)).hexdigest()
            except Failed as error:
                if error.code == ARCHIVE_INCOMPLETE and name not in sent_digests(paths):
                    return  # no base backup needs it, and it was removed after the list was read
                raise
            if digests.get(name, digest) != digest:
                where = f"{name} of service {wal.server} in the archive {wal.bucket.url}"
                raise Failed("ARCHIVE_DAMAGED", f"{where} was altered after it was sent")

        yield _Check(layout.wal_key(wal.server, name), sizes.get(name, 0), verify)
