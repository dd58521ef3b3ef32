"""Private files of the user: always mode 0600, always whole."""

import os
from pathlib import Path

from ramet.errors import Failed


def write_private(path: Path, content: bytes) -> None:
    """Put a file in place at once and whole, readable by its owner only; directories above are made."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise Failed("CANNOT_WRITE", f"{path} cannot be written: {error.strerror}") from error
