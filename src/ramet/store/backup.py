"""A copy of a store in a SQLite file as of one point in time, made while others write to it.

When the copy is put in place of a lost store, what it says may be long past. So it knows no operation that was under
way: to go on with a fork would overwrite what clients have written to it since, to undo it remove that. No fork waits
in it to be given to somebody, for somebody may have it. No service expires, for its end may have been put off.
"""

import errno
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from ramet.errors import Failed
from ramet.machine.secret_files import flush_entries
from ramet.model.status import OperationStatus
from ramet.store.due import UNDER_WAY
from ramet.store.tables import hold, operation, replica_set, service, snapshot

DAMAGED = "STORE_DAMAGED"
_FORGOTTEN = "It was under way when the store was backed up"
_GIVEN = "It waited to be given to somebody when the store was backed up"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # the latter where the file beside a store cannot be made


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a store into a new private file, to be put in place later. Raises Failed when the copy is not whole.

    The file has its name only when it is complete: before that, it has operations that would be continued.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    partial = target.with_name(f"{target.name}.partial")
    try:
        _make_copy(source, partial)
        partial.rename(target)
        flush_entries(target.parent)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        cause = getattr(error, "orig", error)
        if is_damage(cause):
            raise Failed(
                DAMAGED, f"The store {source} is damaged, or is no SQLite database", f"SQLite says: {cause}."
            ) from error
        if is_full(cause):
            raise Failed(
                "CANNOT_WRITE",
                f"{target} cannot be written: its disk, or that of the store, is full",
                "Free space there, or name a directory on another disk.",
            ) from error
        raise


def _make_copy(source: Path, copy: Path) -> None:
    faults = _copied(source, copy)
    if faults != ["ok"]:
        raise Failed("BACKUP_DAMAGED", "The copy of the store is not whole", "; ".join(faults)[:400])
    _forget_what_passes(copy)
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def is_damage(error: BaseException | None) -> bool:
    """Tell whether SQLite says that a file is no database of its kind, or is damaged."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def is_full(error: BaseException | None) -> bool:
    """Tell whether an error says that a disk is full."""
    is_of_sqlite = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) in _FULL
    return is_of_sqlite or (isinstance(error, OSError) and error.errno == errno.ENOSPC)


def _copied(source: Path, target: Path) -> list[str]:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    address = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as store, closing(sqlite3.connect(target)) as copy:
        store.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
        return [row[0] for row in copy.execute("PRAGMA integrity_check").fetchall()]


def _forget_what_passes(copy: Path) -> None:
    """End all operations as failed, with the services that they were making, and warm forks; no service expires."""
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(copy)), poolclass=sa.NullPool)
    ended = {"failed_at": datetime.now(UTC), "failure": _FORGOTTEN}
    with engine.begin() as tx:
        for table in (service, replica_set):
            is_made = table.c.operation_id.is_not(None) & table.c.ready_at.is_(None) & table.c.failed_at.is_(None)
            tx.execute(table.update().where(is_made, table.c.deleted_at.is_(None)).values(**ended))
            tx.execute(table.update().values(operation_id=None))
        is_warm = service.c.unclaimed.is_(True) & service.c.failed_at.is_(None) & service.c.deleted_at.is_(None)
        tx.execute(service.update().where(is_warm).values(failed_at=ended["failed_at"], failure=_GIVEN))
        failed = sa.select(service.c.id).where(service.c.failed_at.is_not(None))
        tx.execute(snapshot.delete().where(snapshot.c.service_id.in_(failed)))
        tx.execute(service.update().values(life_span=sa.null()))
        tx.execute(hold.delete())
        over = {"status": OperationStatus.FAILED.value, "finished_at": ended["failed_at"], "error": _FORGOTTEN}
        tx.execute(operation.update().where(UNDER_WAY).values(**over))
