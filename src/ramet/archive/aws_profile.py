"""Credentials from the profile files of the AWS command line, which object_store itself does not read."""

import configparser
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_REREAD_AFTER = timedelta(minutes=1)

Credentials = Callable[[], dict[str, Any]]


def profile_credentials(environment: Mapping[str, str]) -> Credentials | None:
    """Return a function that reads the credentials of the profile, or None when the file or the profile has none.

    The file is read again after a minute, so that keys can be rotated while Ramet runs.
    """
    path = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials").expanduser()
    profile = environment.get("AWS_PROFILE", "default")

    def read() -> dict[str, Any]:
        section = _section(path, profile)
        if section is None:
            raise ValueError(f"{path} has no access key for the profile {profile!r}")
        return {
            "access_key_id": section["aws_access_key_id"],
            "secret_access_key": section["aws_secret_access_key"],
            "token": section.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + _REREAD_AFTER,
        }

    return None if _section(path, profile) is None else read


def _section(path: Path, profile: str) -> Mapping[str, str] | None:
    files = configparser.ConfigParser(interpolation=None)
    files.read(path)
    section = files[profile] if files.has_section(profile) else None
    return section if section is not None and "aws_access_key_id" in section else None
