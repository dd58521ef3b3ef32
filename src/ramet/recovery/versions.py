"""The catalogue in the object store: each change is a new object, and the newest whole one counts.

    ramet-catalogue/000000000017-3f2a91bc.json    its number, and the beginning of the installation's identifier

Numbers order the versions, because clocks may be wrong. An object begins with the SHA-256 of the rest.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ramet.archive.object_store import Bucket
from ramet.archive.owner import short_id
from ramet.ids import is_id
from ramet.recovery.catalogue import Catalogue

_PREFIX = "ramet-catalogue/"
_KEY = re.compile(r"(\d{12})-([0-9a-z]{1,8})\.json")
_KEPT = 10
_KEPT_OF_OTHERS = 2


@dataclass(frozen=True, order=True)
class Version:
    """One object: its number, and who wrote it."""

    number: int
    writer: str

    @property
    def key(self) -> str:
        """The key of the object."""
        return f"{_PREFIX}{self.number:012d}-{self.writer}.json"


def write_catalogue(bucket: Bucket, catalogue: Catalogue) -> None:
    """Write another version, and remove old ones. The last versions of other installations stay: they may have more."""
    known, writer = _versions(bucket), short_id(catalogue.installation)
    content = msgspec.json.encode(catalogue)
    number = known[0].number + 1 if known else 1
    while not bucket.create(Version(number, writer).key, _digest(content) + b"\n" + content):
        number += 1  # the listing did not show it yet
    bucket.delete([version.key for version in _outdated(known, writer)])


def read_catalogues(bucket: Bucket) -> list[Catalogue]:
    """Return the newest whole version of each installation, the newest first."""
    found = dict[str, Catalogue]()
    for version in _versions(bucket):
        if version.writer not in found and (catalogue := _read(bucket, version)) is not None:
            found[version.writer] = catalogue
    return list(found.values())


def _versions(bucket: Bucket) -> list[Version]:
    names = (found.key.rpartition("/")[2] for found in bucket.objects(_PREFIX))
    matches = (_KEY.fullmatch(name) for name in names)
    return sorted((Version(int(match[1]), match[2]) for match in matches if match), reverse=True)


def _read(bucket: Bucket, version: Version) -> Catalogue | None:
    """Return a version; None when it is gone, cut short or altered, or of a release that this one cannot read.

    Ids become names of directories here, so what is no id does not count either.
    """
    digest, _, content = (bucket.read(version.key) or b"").partition(b"\n")
    if digest != _digest(content):
        return None
    try:
        found = msgspec.json.decode(content, type=Catalogue)
    except msgspec.MsgspecError:
        return None
    return found if all(map(is_id, _ids(found))) else None


def _ids(catalogue: Catalogue) -> Iterator[str]:
    yield from (project.id for project in catalogue.projects)
    for service in catalogue.services:
        yield service.id
        for replica_set in service.replica_sets:
            yield from (replica_set.id, *(node_id for node_id, _port in replica_set.nodes))


def _outdated(known: list[Version], writer: str) -> Iterator[Version]:
    """Yield the versions to remove once another one of `writer` is there."""
    seen = dict[str, int]()
    for version in known:
        seen[version.writer] = seen.get(version.writer, 0) + 1
        if seen[version.writer] >= (_KEPT if version.writer == writer else _KEPT_OF_OTHERS + 1):
            yield version


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
