"""Which server, project and key a command uses.

A file that is named, by an option or by RAMET_CREDENTIALS_FILE, overrides the other RAMET_* variables, and each of
those overrides its value in the user's own file.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ramet.cli.user_files.files import config_dir, read_values, write_values
from ramet.client.transport import checked_address, verification
from ramet.endpoints import BASE_PATH
from ramet.errors import Invalid, Unauthorized

CREDENTIALS_VARIABLE = "RAMET_CREDENTIALS_FILE"
VARIABLES = {
    "base_url": "RAMET_BASE_URL",
    "project_id": "RAMET_PROJECT_ID",
    "public_key": "RAMET_PUBLIC_KEY",
    "secret_key": "RAMET_SECRET_KEY",
}
_KEY = ("public_key", "secret_key")
CA = "ca"
CA_VARIABLE = "RAMET_CA"
_NEEDS = f"It needs {', '.join(VARIABLES)}."
_REMEDY = (
    "Start a server with 'ramet up', which writes them; or set RAMET_BASE_URL, RAMET_PROJECT_ID, RAMET_PUBLIC_KEY "
    "and RAMET_SECRET_KEY; or give --credentials-file; or see 'ramet config set --help'."
)


class Credentials(msgspec.Struct, frozen=True):
    """Everything that a client needs to reach its project. `ca` is the authority of the server as PEM, "" for none."""

    base_url: str
    project_id: str
    public_key: str
    secret_key: str
    ca: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.base_url!r}, {self.project_id!r}, {self.public_key!r}, ***)"


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file of the user's own credentials."""
    return config_dir(environ) / "credentials.json"


def find_credentials(named: Path | None, environ: Mapping[str, str] = os.environ) -> Credentials:
    """Return the credentials for a command. Raises Unauthorized, with what is missing and how to get it."""
    if named is None and environ.get(CREDENTIALS_VARIABLE):
        named = Path(environ[CREDENTIALS_VARIABLE])
    if named is not None:
        found = read_credentials(named)
        if found is None:
            raise Unauthorized("NO_CREDENTIALS", f"There is no credentials file at {named}", _REMEDY)
    else:
        saved = read_saved(config_path(environ))
        given = {name: environ[variable] for name, variable in VARIABLES.items() if environ.get(variable)}
        _check_one_key(saved, given)
        values = saved | given
        if missing := _missing(values):
            reason = f"Neither {config_path(environ)} nor the environment has {', '.join(missing)}"
            raise Unauthorized("NO_CREDENTIALS", reason, _REMEDY)
        if file := environ.get(CA_VARIABLE):
            values[CA] = read_authority(file)
        found = Credentials(**values)
    return msgspec.structs.replace(found, base_url=full_address(found.base_url))


def read_authority(file: str) -> str:
    """Return the certificates in a file, as PEM, which 'ramet ca' prints. Raises Invalid."""
    try:
        text = Path(file).expanduser().read_text()
        verification(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid("BAD_CA", f"The authority {file} cannot be read: {error}", "'ramet ca' prints it.") from error
    return text


def full_address(value: str) -> str:
    """Return the address of the HTTP interface; the address of its host is enough. Raises Invalid."""
    address = checked_address(value.strip())
    return address if address.partition("://")[2].count("/") else address + BASE_PATH


def read_credentials(path: Path) -> Credentials | None:
    """Return the credentials in a file, or None if there is no file. Raises Invalid if the file is incomplete."""
    if not path.exists():
        return None
    values = read_saved(path)
    if missing := _missing(values):
        raise Invalid("BAD_CREDENTIALS_FILE", f"{path} has no {' and no '.join(missing)}", _NEEDS)
    return Credentials(**values)


def read_saved(path: Path) -> dict[str, str]:
    """Return the values that a file has so far; none if there is no file. Raises Invalid for any other file."""
    values = read_values(path, "BAD_CREDENTIALS_FILE", _NEEDS) or {}
    return {name: values[name] for name in (*VARIABLES, CA) if name in values}


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Write credentials to a file, readable by its owner only."""
    values = msgspec.structs.asdict(credentials)
    write_values(path, {name: value for name, value in values.items() if value or name != CA})


def _check_one_key(saved: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Raise Invalid where a variable would replace one half of the saved key, and the other half remain."""
    for half, other in (_KEY, _KEY[::-1]):
        if half in given and other not in given and other in saved and saved.get(half) not in (None, given[half]):
            raise Invalid(
                "HALF_A_KEY",
                f"{VARIABLES[half]} is set, and {VARIABLES[other]} is not",
                "Set both, or none of them: the two belong together.",
            )


def _missing(values: Mapping[str, str]) -> list[str]:
    return [name for name in VARIABLES if name not in values]
