"""Credentials and settings from the profile files of the AWS tools, which object_store itself does not read."""

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


def profile_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the region and the endpoint that the profile names and no variable does, as object_store calls them."""
    path = Path(environment.get("AWS_CONFIG_FILE") or Path.home() / ".aws" / "config").expanduser()
    profile = environment.get("AWS_PROFILE", "default")
    section = _section_named(path, profile if profile == "default" else f"profile {profile}")
    variables = {
        "region": ("region", ("AWS_REGION", "AWS_DEFAULT_REGION")),
        "endpoint": ("endpoint_url", ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3")),
    }
    return {
        name: section[setting]
        for name, (setting, names) in variables.items()
        if setting in section and not any(each in environment for each in names)
    }


def _section(path: Path, profile: str) -> Mapping[str, str] | None:
    section = _section_named(path, profile)
    return section if "aws_access_key_id" in section else None


def _section_named(path: Path, name: str) -> Mapping[str, str]:
    """Return what a section of a file says; nothing without it. Raises ValueError for a file of another form."""
    files = configparser.ConfigParser(interpolation=None)
    try:
        files.read(path)
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a valid file of AWS profiles: {error}") from error
    return files[name] if files.has_section(name) else {}
