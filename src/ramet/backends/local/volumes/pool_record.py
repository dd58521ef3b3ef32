"""The file that records how a pool was created, so that it is never opened in another way by mistake."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ramet.backends.local.host import files
from ramet.errors import Failed

_FORMAT = 1


@dataclass(frozen=True)
class Record:
    """How a pool was created: `image` and the fields after it are None for a pool without an image."""

    driver: str
    reason: str
    image: str | None = None
    file_system: str | None = None
    identifier: str | None = None
    size_bytes: int | None = None


def read_record(path: Path) -> Record | None:
    """Return the record; None when there is no pool yet. Raises Failed when it cannot be read."""
    try:
        fields = json.loads(path.read_text())
        if fields.pop("format") != _FORMAT:
            raise ValueError("a later format")
        return Record(**fields)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed(
            "POOL_RECORD_UNREADABLE", f"{path} cannot be read. Restore it from a backup", str(error)
        ) from error


def write_record(path: Path, record: Record) -> None:
    """Write the record atomically and durably."""
    text = json.dumps({"format": _FORMAT, **asdict(record)}, indent=2)
    files.write(path, f"{text}\n", durable=True, mode=0o644)
