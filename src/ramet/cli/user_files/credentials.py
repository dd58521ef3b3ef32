"""Which server, project and key a command uses, and where they are kept.

A file that is named goes before RAMET_* variables, and those, one by one, before the user's own file.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ramet.cli.user_files.private_file import write_private
from ramet.client.connection import checked_address
from ramet.errors import Invalid, Unauthorized

CREDENTIALS_VARIABLE = "RAMET_CREDENTIALS_FILE"
_INTERFACE = "/public/api/v1"
VARIABLES = {
    "base_url": "RAMET_BASE_URL",
    "project_id": "RAMET_PROJECT_ID",
    "public_key": "RAMET_PUBLIC_KEY",
    "secret_key": "RAMET_SECRET_KEY",
}


class Credentials(msgspec.Struct, frozen=True):
    """All that a client needs to reach its project."""

    base_url: str
    project_id: str
    public_key: str
    secret_key: str

    def __repr__(self) -> str:
        return f"Credentials({self.base_url!r}, {self.project_id!r}, {self.public_key!r}, ***)"


class _Kept(msgspec.Struct, frozen=True):
    """What a file may hold; all of it together are credentials."""

    base_url: str | None = None
    project_id: str | None = None
    public_key: str | None = None
    secret_key: str | None = None


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the user's own files."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "ramet"


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the user's credentials are kept."""
    return config_dir(environ) / "credentials.json"


def find_credentials(named: Path | None, environ: Mapping[str, str] = os.environ) -> Credentials:
    """Return what a command is to use. Raises Unauthorized, saying what is missing and how to get it."""
    if named is not None:
        found = read_credentials(named)
        if found is None:
            raise Unauthorized("NO_CREDENTIALS", f"There is no credentials file at {named}", _REMEDY)
        return _complete(found)
    values = read_values(config_path(environ)) or {}
    values |= {name: environ[variable] for name, variable in VARIABLES.items() if environ.get(variable)}
    missing = [name for name in VARIABLES if name not in values]
    if missing:
        raise Unauthorized(
            "NO_CREDENTIALS",
            f"No credentials: {', '.join(missing)} is in neither {config_path(environ)} nor the environment",
            _REMEDY,
        )
    return _complete(Credentials(**values))


def full_address(value: str) -> str:
    """Return the address of the interface; that of its host is enough. Raises Invalid when it is none."""
    address = checked_address(value.strip())
    return address if address.partition("://")[2].count("/") else address + _INTERFACE


def _complete(found: Credentials) -> Credentials:
    return msgspec.structs.replace(found, base_url=full_address(found.base_url))


def read_credentials(path: Path) -> Credentials | None:
    """Return what a file holds, or None when there is none. Raises Invalid when it cannot be understood."""
    values = read_values(path)
    if values is None:
        return None
    missing = [name for name in VARIABLES if name not in values]
    if missing:
        raise Invalid("BAD_CREDENTIALS_FILE", f"{path} holds no {', no '.join(missing)}", _NEEDS)
    return Credentials(**values)


def read_values(path: Path) -> dict[str, str] | None:
    """Return what a file holds so far, or None when there is none. Raises Invalid when it cannot be understood."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid("BAD_CREDENTIALS_FILE", f"{path} holds no credentials: {error}", _NEEDS) from error
    return {name: value for name, value in msgspec.structs.asdict(kept).items() if value is not None}


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Keep credentials in a file, readable by its owner only."""
    write_values(path, msgspec.structs.asdict(credentials))


def write_values(path: Path, values: Mapping[str, str]) -> None:
    """Keep named values in a file, readable by its owner only."""
    write_private(path, msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n")


_NEEDS = f"It needs {', '.join(VARIABLES)}."
_REMEDY = (
    "Start a server with 'ramet up', which writes them; or set RAMET_BASE_URL, RAMET_PROJECT_ID, RAMET_PUBLIC_KEY "
    "and RAMET_SECRET_KEY; or give --credentials-file; or see 'ramet config set --help'."
)
