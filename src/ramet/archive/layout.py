"""Where Barman's cloud tools look for what: the keys of one server's base backups and WAL below its name.

SERVER/base/20260115T093000/backup.info          what the base backup holds; its last object to be written
SERVER/base/20260115T093000/data.tar.gz          its files, in parts: data_0001.tar.gz, data_0002.tar.gz, …
SERVER/base/20260115T093000/checksums/0000.json  the size and SHA-256 of each part (not read by Barman)
SERVER/wals/0000000100000003/000000010000000300000017.gz
SERVER/wals/00000002.history.gz
SERVER/ramet-wal-end                             the name of the last segment that was sent (not read by Barman)
"""

import re
from datetime import UTC, datetime

ARCHIVE_INCOMPLETE = "ARCHIVE_INCOMPLETE"  # the code of an error about an object that is missing
BACKUP_ID_FORMAT = "%Y%m%dT%H%M%S"
SEGMENT_BYTES = 16 * 1024 * 1024  # of a WAL segment
_BACKUP_ID = re.compile(r"\d{8}T\d{6}")
_PART = re.compile(r"/base/(\d{8}T\d{6})/data(?:_\d{4,})?\.tar\.gz$")
_WAL_FILE = re.compile(r"[0-9A-F]{24}|[0-9A-F]{8}\.history")
_SUFFIX = ".gz"
_DIRECTORY_DIGITS = 16


def backup_id_of(taken_at: datetime) -> str:
    """Return the id of the base backup that was taken at a time."""
    return taken_at.astimezone(UTC).strftime(BACKUP_ID_FORMAT)


def is_backup_id(name: str) -> bool:
    """Tell whether a directory below `base` is a base backup."""
    return _BACKUP_ID.fullmatch(name) is not None


def base_prefix(server: str, backup_id: str = "") -> str:
    """Return the directory of a server's base backups, or of one of them, with a slash at its end."""
    return f"{server}/base/{backup_id}/" if backup_id else f"{server}/base/"


def info_key(server: str, backup_id: str) -> str:
    """Return the key of a base backup's description."""
    return f"{base_prefix(server, backup_id)}backup.info"


def part_key(server: str, backup_id: str, number: int) -> str:
    """Return the key of a part of a base backup, counted from 0."""
    name = "data" if number == 0 else f"data_{number:04d}"
    return f"{base_prefix(server, backup_id)}{name}.tar.gz"


def checksum_key(server: str, backup_id: str, number: int) -> str:
    """Return the key of the checksum of a part."""
    return f"{base_prefix(server, backup_id)}checksums/{number:04d}.json"


def backup_id_of_part(key: str) -> str | None:
    """Return the id of the base backup that an object is a part of, or None where it is none."""
    found = _PART.search(key)
    return None if found is None else found[1]


def wal_prefix(server: str) -> str:
    """Return the directory of a server's WAL, with a slash at its end."""
    return f"{server}/wals/"


def is_wal_file(name: str) -> bool:
    """Tell whether a file of an archive directory belongs into the store: complete segments and timeline histories."""
    return _WAL_FILE.fullmatch(name) is not None


def wal_key(server: str, name: str) -> str:
    """Return the key of a WAL file, compressed."""
    directory = "" if name.endswith(".history") else f"{name[:_DIRECTORY_DIGITS]}/"
    return f"{wal_prefix(server)}{directory}{name}{_SUFFIX}"


def end_key(server: str) -> str:
    """Return the key of the object that names the last WAL segment that was sent."""
    return f"{server}/ramet-wal-end"


def wal_name(key: str) -> str | None:
    """Return the name of the WAL file below a key, or None where the key is none of a WAL file."""
    name = key.rpartition("/")[2].removesuffix(_SUFFIX)
    return name if is_wal_file(name) else None
