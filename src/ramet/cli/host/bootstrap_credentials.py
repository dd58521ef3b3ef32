"""The key that `ramet up` creates for the user who starts it, so that the next command needs no configuration."""

import getpass
import logging
import re
from itertools import count
from pathlib import Path

from ramet.cli.user_files.credentials import Credentials, config_path, read_credentials, write_credentials
from ramet.cli.user_files.files import changing
from ramet.control.plane import utc_now
from ramet.control.projects import Projects
from ramet.errors import Failed, Invalid, Unauthorized
from ramet.machine.secret_files import is_stream
from ramet.model.keys import ApiKey
from ramet.model.rights import Role
from ramet.model.secret import Secret

_log = logging.getLogger(__name__)


def ensure_credentials(projects: Projects, base_url: str, path: Path, ca: str = "") -> Credentials:
    """Make sure that a file has valid credentials, and return them.

    Those in it are kept if they are valid, else a key is created. A stream, which may keep nothing that can be read,
    gets those of the user's own file if they are of an admin of the project that a key would be created for.
    `ca` is the authority that clients verify the server with, as PEM, or "".
    """
    kept = _read(path)
    known = _of_user(projects) if kept is None and is_stream(path) else kept
    if known is not None and _are_valid(projects, known):
        made = Credentials(base_url, known.project_id, known.public_key, known.secret_key, ca or known.ca)
    else:
        made = _new_key(projects, base_url, ca)
    if made != kept:
        write_credentials(path, made)
    return made


def ensure_user_credentials(projects: Projects, base_url: str, given: Credentials | None, ca: str = "") -> None:
    """Make sure that the user's own file has valid credentials.

    If another file was named, which has those that are `given`, the user's own file is not changed while it has
    credentials of another Ramet. Else these are put aside, and taken back by a start of the Ramet that they are of.
    """
    path = config_path()
    try:
        kept = _read(path)
        if kept is not None and _are_valid(projects, kept):
            ensure_credentials(projects, base_url, path, ca)
        elif given is None:
            with changing(path):  # where it cannot be written, no key is made that nobody would have
                kept = _read(path)  # another start may have written it since
                if kept is None or not _are_valid(projects, kept):
                    _exchange(projects, path, kept)
                ensure_credentials(projects, base_url, path, ca)
        elif not path.exists():
            write_credentials(path, given)
    except (Failed, OSError) as error:
        _log.warning("no credentials were saved for the command line: %s", error)


def _exchange(projects: Projects, path: Path, kept: Credentials | None) -> None:
    """Put what is not valid here aside, and take the key of an admin back that an earlier call has put aside."""
    if kept is not None:
        aside = _aside(path, kept)
        write_credentials(aside, kept)
        told = "the key for %s is not valid here: it is kept in %s, which --credentials-file can name"
        _log.warning(told, kept.base_url, aside)
    elif path.is_file():
        aside = next(one for n in count(1) if not (one := path.with_name(f"{path.name}.kept-{n}")).exists())
        path.rename(aside)
        _log.warning("%s cannot be read, or lacks a part of what it needs: it is kept as %s", path, aside)
    for aside in sorted(path.parent.glob(f"{path.stem}-*.json")):
        found = _read(aside)
        if found is not None and aside == _aside(path, found) and _is_admins(projects, found):
            write_credentials(path, found)
            aside.unlink()
            return


def _aside(path: Path, kept: Credentials) -> Path:
    """Return the file for credentials that are put aside; any other file beside `path` is the user's."""
    return path.with_name(f"{path.stem}-{re.sub(r'[^A-Za-z0-9]', '_', kept.public_key)}.json")


def _read(path: Path) -> Credentials | None:
    try:
        return read_credentials(path) if path.is_file() else None  # reading a pipe waits without end
    except (Invalid, OSError):
        return None


def _of_user(projects: Projects) -> Credentials | None:
    """Return the credentials of the user's own file if they open what a new key would."""
    kept = _read(config_path())
    key = None if kept is None else _key_of(projects, kept)
    is_equal = key is not None and key.role is Role.ADMIN and key.project_id == projects.list_projects()[0].id
    return kept if is_equal else None


def _are_valid(projects: Projects, kept: Credentials) -> bool:
    return _key_of(projects, kept) is not None


def _is_admins(projects: Projects, kept: Credentials) -> bool:
    key = _key_of(projects, kept)
    return key is not None and key.role is Role.ADMIN


def _key_of(projects: Projects, kept: Credentials) -> ApiKey | None:
    """Return the key that credentials open their project with; None: they are not valid."""
    try:
        key = projects.authenticate(kept.public_key, Secret(kept.secret_key))
    except Unauthorized:
        return None
    return key if key.project_id == kept.project_id else None


def _new_key(projects: Projects, base_url: str, ca: str) -> Credentials:
    known = projects.list_projects()
    project = known[0] if known else projects.create_project("default", utc_now())
    key, secret = projects.create_key(project.id, f"ramet up by {_user()}", utc_now())
    return Credentials(base_url, project.id, key.public_key, secret.reveal(), ca)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unnamed user"
