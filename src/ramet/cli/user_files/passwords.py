"""Passwords of services for `ramet db connect`, in PostgreSQL's format (PostgreSQL 18 docs, 32.16).

The file is Ramet's own: ~/.pgpass belongs to the user and is not changed. Its lines are for all databases of a service;
those of earlier releases are for `tsdb`, and are replaced when one of them is used.
"""

import re
from contextlib import suppress
from pathlib import Path

from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import Endpoint
from ramet.cli.user_files.files import changing, config_dir, write_private
from ramet.endpoints import ADMIN, DATABASE
from ramet.errors import Failed

_ALL_DATABASES = f":*:{ADMIN}:"
_ONE_DATABASE = f":{DATABASE}:{ADMIN}:"


def passwords_path() -> Path:
    """Return the file of the passwords."""
    return config_dir() / "pgpass"


def save_password(endpoint: Endpoint, password: str) -> None:
    """Save the admin password of an endpoint in place of an earlier one."""
    _replace(endpoint, f"{_prefix(endpoint)}{_escaped(password)}\n")


def find_password(endpoint: Endpoint) -> str | None:
    """Return the admin password of an endpoint, or None if it was not saved."""
    prefix = _prefix(endpoint)
    for line in _lines():
        if line.startswith(prefix):
            return re.sub(r"\\(.)", r"\1", line[len(prefix) :])
    return None


def find_password_of(service: Service) -> str | None:
    """Return the admin password of a service, also where it was saved when the service had another address."""
    endpoint = service.endpoint
    hosts = (endpoint.host, *service.metadata.earlier_hosts)
    return next(filter(None, (find_password(Endpoint(host, endpoint.port)) for host in hosts)), None)


def password_variables(endpoint: Endpoint) -> dict[str, str]:
    """Return the variables with which libpq finds the saved password of an endpoint; none if it was not saved."""
    password, path = find_password(endpoint), passwords_path()
    if password is None:
        return {}
    if _ONE_DATABASE in path.read_text():
        with suppress(Failed):  # it serves for `tsdb` as it is
            save_password(endpoint, password)
    return {"PGPASSFILE": str(path)}


def forget_password(endpoint: Endpoint) -> None:
    """Remove the password of an endpoint that no longer exists."""
    if find_password(endpoint) is not None:
        _replace(endpoint, "")


def _replace(endpoint: Endpoint, line: str) -> None:
    path = passwords_path()
    with changing(path):
        kept = [f"{one}\n" for one in _lines() if not one.startswith(_prefix(endpoint))]
        write_private(path, "".join([*kept, line]).encode())


def _prefix(endpoint: Endpoint) -> str:
    return f"{_escaped(endpoint.host)}:{endpoint.port}{_ALL_DATABASES}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _lines() -> list[str]:
    path = passwords_path()
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.replace(_ONE_DATABASE, _ALL_DATABASES, 1) for line in lines]
