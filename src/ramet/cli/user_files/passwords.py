"""Passwords of services, kept for `ramet db connect` in a file of PostgreSQL's own format (PostgreSQL 18 docs, 34.16).

The file is Ramet's own: ~/.pgpass is the user's, and is not touched.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ramet.api.schemas.shared import Endpoint
from ramet.cli.user_files.credentials import config_dir
from ramet.cli.user_files.private_file import write_private
from ramet.endpoints import ADMIN, DATABASE


def passwords_path() -> Path:
    """Return the file; PGPASSFILE may name it."""
    return config_dir() / "pgpass"


def save_password(endpoint: Endpoint, password: str) -> None:
    """Keep the admin's password of an endpoint in place of an older one."""
    with _locked() as path:
        kept = [line for line in _lines(path) if not line.startswith(_prefix(endpoint))]
        write_private(path, "".join(f"{line}\n" for line in [*kept, _prefix(endpoint) + _escaped(password)]).encode())


def find_password(endpoint: Endpoint) -> str | None:
    """Return the admin's password of an endpoint, or None when it was never kept."""
    prefix = _prefix(endpoint)
    for line in _lines(passwords_path()):
        if line.startswith(prefix):
            return re.sub(r"\\(.)", r"\1", line[len(prefix) :])
    return None


def forget_password(endpoint: Endpoint) -> None:
    """Drop the password of an endpoint that is no more."""
    if find_password(endpoint) is None:
        return
    with _locked() as path:
        kept = [line for line in _lines(path) if not line.startswith(_prefix(endpoint))]
        write_private(path, "".join(f"{line}\n" for line in kept).encode())


def _prefix(endpoint: Endpoint) -> str:
    return f"{_escaped(endpoint.host)}:{endpoint.port}:{DATABASE}:{ADMIN}:"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@contextmanager
def _locked() -> Iterator[Path]:
    path = passwords_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(".pgpass.lock")
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path
