"""A copy of a store in a SQLite file as of one point in time, made while others write to it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from ramet.errors import Failed

DAMAGED = "STORE_DAMAGED"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database into a new private file, and check the copy. Raises Failed when it is not whole."""
    try:
        faults = _copied(source, target)
    except sqlite3.DatabaseError as error:
        target.unlink()
        if is_damage(error):
            raise Failed(
                DAMAGED, f"The store {source} is damaged, or is no SQLite database", f"SQLite says: {error}."
            ) from error
        raise
    if faults != ["ok"]:
        target.unlink()
        raise Failed("BACKUP_DAMAGED", "The copy of the store is not whole", "; ".join(faults)[:400])
    with target.open("rb") as file:
        os.fsync(file.fileno())


def is_damage(error: BaseException | None) -> bool:
    """Tell whether SQLite says that a file is no database of its kind, or is damaged."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def _copied(source: Path, target: Path) -> list[str]:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    address = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as store, closing(sqlite3.connect(target)) as copy:
        store.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
        return [row[0] for row in copy.execute("PRAGMA integrity_check").fetchall()]
