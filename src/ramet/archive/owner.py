"""Who may write to an archive: one installation, named in an object at its root, until another one takes it over."""

import socket
from datetime import UTC, datetime

import msgspec

from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.archive.object_store import Bucket
from ramet.errors import Failed, Unavailable

_KEY = "ramet-owner.json"
_ATTEMPTS = 3


class Owner(msgspec.Struct, frozen=True):
    """The installation that writes to an archive, the host that it runs on, and since when."""

    installation: str
    host: str
    since: datetime


def claim(bucket: Bucket, installation: str) -> None:
    """Make an installation the writer of an archive that has none. May run twice.

    The writer is read first, because some stores ignore the condition of `create` and would replace it.
    Raises Failed when another installation is the writer.
    """
    if owner_of(bucket) is None:
        bucket.create(_KEY, _encoded(installation))
    check(bucket, installation)


def check(bucket: Bucket, installation: str) -> None:
    """Raise Failed when an installation is not the writer of an archive: another one took it over, or it is gone."""
    owner = owner_of(bucket)
    if owner is None:
        raise Failed(ARCHIVE_INCOMPLETE, f"The archive {bucket.url} lacks {_KEY}, which names its writer")
    if owner.installation != installation:
        since = f"{owner.since:%Y-%m-%d %H:%M} UTC"
        raise Failed(
            "ARCHIVE_TAKEN_OVER",
            f"The archive {bucket.url} belongs to installation {short_id(owner.installation)} on {owner.host} since"
            f" {since}, and this is installation {short_id(installation)}",
            "Nothing is written to it from here. If this machine was replaced, stop its services; otherwise give it"
            " another RAMET_ARCHIVE_URL.",
        )


def owner_of(bucket: Bucket) -> Owner | None:
    """Return the writer of an archive, or None when nothing was written to it yet. Raises Failed for a damaged one."""
    content = bucket.read(_KEY)
    if content is None:
        return None
    if (owner := _decoded(content)) is None:
        raise Failed(
            "ARCHIVE_DAMAGED",
            f"{_KEY}, which names the writer of the archive {bucket.url}, is damaged",
            "If no other installation writes to this URL, remove that object: it is written again.",
        )
    return owner


def short_id(installation: str) -> str:
    """Return the beginning of an installation's identifier, which tells two on one host apart."""
    return installation[:8]


def take_over(bucket: Bucket, installation: str) -> None:
    """Make an installation the writer in place of another one, which is refused from now on. May run twice.

    A write whose answer is lost may have had its effect: it is looked up, and the write is tried again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            while not _is_taken_over(bucket, installation):
                pass
        except Unavailable:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _is_taken_over(bucket: Bucket, installation: str) -> bool:
    """Write unless the installation is the writer already; False when another write came in between."""
    found = bucket.read_version(_KEY)
    if found is None:
        return bucket.create(_KEY, _encoded(installation))
    content, version = found
    before = _decoded(content)
    return (before is not None and before.installation == installation) or bucket.replace(
        _KEY, _encoded(installation), version
    )


def _decoded(content: bytes) -> Owner | None:
    try:
        return msgspec.json.decode(content, type=Owner)
    except msgspec.DecodeError:
        return None


def _encoded(installation: str) -> bytes:
    return msgspec.json.encode(Owner(installation, socket.gethostname(), datetime.now(UTC)))
