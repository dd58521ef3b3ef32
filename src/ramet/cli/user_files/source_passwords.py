"""The password of a database elsewhere: from a file, PGPASSWORD, or the user's password file; never from a command.

PGPASSFILE and ~/.pgpass have the format of PostgreSQL 18 docs, 32.16.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ramet.errors import Invalid
from ramet.model.secret import Secret

_FIELD = re.compile(r"((?:[^:\\]|\\.)*)(?::|$)")


def find_source_password(
    url: str, password_file: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Secret | None:
    """Return the password for a URL, whose port is a number, or None if the user has to type it.

    Raises Invalid for a file without one, and for a password that is not UTF-8.
    """
    if password_file is not None:
        return _sendable(_first_line(password_file), f"The first line of {password_file}")
    if environ.get("PGPASSWORD"):
        return _sendable(environ["PGPASSWORD"], "PGPASSWORD")
    path = Path(environ.get("PGPASSFILE") or Path(environ.get("HOME", "/")) / ".pgpass")
    if not path.is_file() or path.stat().st_mode & 0o077:  # libpq ignores files that others can read
        return None
    return _matching(path, url)


def _first_line(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise Invalid("NO_PASSWORD_FILE", f"The file {path} cannot be read: {error.strerror}") from error
    if not lines or not lines[0]:
        raise Invalid("NO_PASSWORD_FILE", f"The file {path} does not begin with a password")
    return lines[0]


def _matching(path: Path, url: str) -> Secret | None:
    parts = urlsplit(url)
    wanted = (parts.hostname or "", str(parts.port or 5432), unquote(parts.path[1:]), unquote(parts.username or ""))
    for line in path.read_text("utf-8", errors="surrogateescape").splitlines():
        fields = [re.sub(r"\\(.)", r"\1", field) for field in _FIELD.findall(line)]
        is_entry = not line.startswith("#") and len(fields) > len(wanted)
        if is_entry and all(field in ("*", value) for field, value in zip(fields, wanted, strict=False)):
            return _sendable(fields[len(wanted)], f"The password for {parts.hostname} in {path}")
    return None


def _sendable(password: str, origin: str) -> Secret:
    """Return a password that was read as UTF-8, with surrogates for other bytes. Raises Invalid for one with these."""
    try:
        password.encode()
    except UnicodeEncodeError as error:
        remedy = "Write it as UTF-8, or omit it, and type it when asked."
        raise Invalid("PASSWORD_NOT_UTF8", f"{origin} is not UTF-8", remedy) from error
    return Secret(password)
