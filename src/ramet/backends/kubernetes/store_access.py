"""How pods reach the off-host archive: the object store of RAMET_ARCHIVE_URL, with the keys that Ramet itself has."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ramet.archive.aws_profile import profile_credentials, profile_settings
from ramet.errors import Invalid
from ramet.model.passwords import Secret

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class StoreAccess:
    """An S3 bucket. Without keys, pods have the role of their service account. Empty: the provider's default."""

    url: str
    endpoint: str = ""
    region: str = ""
    key_id: Secret | None = None
    key: Secret | None = None


def store_access(url: str, environ: Mapping[str, str] = os.environ) -> StoreAccess | None:
    """Return how to reach the archive of a URL; None where none is set. Raises Invalid for a store that is not S3."""
    if not url:
        return None
    if not url.startswith("s3://"):
        raise Invalid(
            "INVALID_ARCHIVE_URL",
            f"On Kubernetes the archive must be s3://bucket/prefix (got {url!r})",
            "Use a bucket with an interface like that of S3.",
        )
    known = profile_settings(environ)
    return StoreAccess(
        url.rstrip("/"),
        _first(environ, _ENDPOINTS) or known.get("endpoint", ""),
        _first(environ, _REGIONS) or known.get("region", ""),
        *_keys(environ),
    )


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _keys(environ: Mapping[str, str]) -> tuple[Secret, Secret] | tuple[None, None]:
    if environ.get("AWS_ACCESS_KEY_ID"):
        return Secret(environ["AWS_ACCESS_KEY_ID"]), Secret(environ.get("AWS_SECRET_ACCESS_KEY", ""))
    read = profile_credentials(environ)
    if read is None:
        return None, None
    found = read()
    return Secret(found["access_key_id"]), Secret(found["secret_access_key"])
