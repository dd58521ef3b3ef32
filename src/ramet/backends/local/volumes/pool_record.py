"""The small file that says how a pool was made, so that it is never silently opened in another way."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ramet.backends.local.host import files
from ramet.errors import Failed

_FORMAT = 1


@dataclass(frozen=True)
class Record:
    """How a pool was made: `image` and what follows are None where the data root itself is the pool's file system."""

    driver: str
    reason: str
    image: str | None = None
    file_system: str | None = None
    identifier: str | None = None
    size_bytes: int | None = None


def read_record(path: Path) -> Record | None:
    """Return the record; None when no pool has been made. Raises Failed when it cannot be understood."""
    try:
        fields = json.loads(path.read_text())
        if fields.pop("format") != _FORMAT:
            raise ValueError("a later format")
        return Record(**fields)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed(
            "POOL_RECORD_UNREADABLE", f"{path} cannot be understood. Restore it from a backup", str(error)
        ) from error


def write_record(path: Path, record: Record) -> None:
    """Write the record whole or not at all, and durably."""
    text = json.dumps({"format": _FORMAT, **asdict(record)}, indent=2)
    files.write(path, f"{text}\n", durable=True, mode=0o644)
