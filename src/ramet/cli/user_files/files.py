"""Files of the user's own configuration: readable by their owner only, and replaced atomically."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ramet.errors import Failed, Invalid
from ramet.machine.secret_files import replace_secret


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the user's own files; where the user has no home directory, one that does not exist."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else _home() / ".config") / "ramet"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd, as a container may have it
        return Path("/nonexistent")  # the name that Debian gives such users


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically by one that only its owner can read; missing directories are created."""
    with writing(path):
        replace_secret(path, content)


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Let one process at a time read a file and write it again; missing directories are created. Raises Failed."""
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise Failed, with the file that cannot be written, for an OSError in the block."""
    try:
        yield
    except OSError as error:
        raise Failed("CANNOT_WRITE", f"{path} cannot be written: {error.strerror}") from error


def read_values(path: Path, code: str, remedy: str) -> dict[str, str] | None:
    """Return the named values in a file, or None if there is no file. Raises Invalid for a file with anything else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(code, f"{path} cannot be read: {error}", remedy) from error


def write_values(path: Path, values: Mapping[str, str]) -> None:
    """Write named values to a file, readable by its owner only."""
    write_private(path, msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n")
