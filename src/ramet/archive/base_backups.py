"""The base backups of one server in the object store: uploaded in parts, resumed after a crash, verified.

A part is a tar file of whole files of the data directory. Which files it holds depends on the tree alone, so an upload
that was interrupted continues with the parts that are not there, or have no checksum yet. `backup.info` is written
last: without it, a base backup does not exist.
"""

import contextlib
import gzip
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import msgspec

from ramet.archive import layout
from ramet.archive.backup_info import BackupInfo, parse_backup_info
from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.archive.object_store import Bucket
from ramet.errors import Failed

PART_BYTES = 256 * 1024 * 1024
_LEVEL = 1


class Checksum(msgspec.Struct, frozen=True):
    """What a part must be: its bytes in the store, and their SHA-256."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class BaseBackups:
    """The base backups below one server's name."""

    bucket: Bucket
    server: str
    part_bytes: int = PART_BYTES

    def ids(self) -> list[str]:
        """Return the ids of the base backups, also of incomplete and damaged ones, oldest first."""
        return sorted(filter(layout.is_backup_id, self.bucket.directories(layout.base_prefix(self.server))))

    def complete(self) -> list[BackupInfo]:
        """Return the complete base backups, oldest first, without those whose description is damaged."""
        found = list[BackupInfo]()
        for backup_id in self.ids():
            with contextlib.suppress(Failed):
                if (info := self.find(backup_id)) is not None:
                    found.append(info)
        return found

    def find(self, backup_id: str) -> BackupInfo | None:
        """Return what a base backup holds, None when its upload is not complete or it is gone.

        Raises Failed when its description is damaged.
        """
        key = layout.info_key(self.server, backup_id)
        content = self.bucket.read(key)
        try:
            return None if content is None else parse_backup_info(backup_id, content)
        except ValueError as error:
            raise Failed("ARCHIVE_DAMAGED", f"{key} in the archive {self.bucket.url} is damaged: {error}") from error

    def is_usable(self, backup_id: str) -> bool:
        """Tell whether a base backup is complete, and its description not damaged."""
        try:
            return self.find(backup_id) is not None
        except Failed:
            return False

    def upload(
        self, info: BackupInfo, tree: Path, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> None:
        """Upload a data directory that does not change during this time, and verify the upload. May run twice.

        `progress` gets the bytes of files that are uploaded, and of all. Raises Failed when a part arrived incomplete.
        """
        parts = list(_parts(tree, self.part_bytes))
        total, done = sum(_bytes_of(part) for part in parts), 0
        for number, part in enumerate(parts):
            if not self._is_uploaded(info.backup_id, number):
                checksum = self._upload_part(info.backup_id, number, tree, part)
                self.verify_part(info.backup_id, number, checksum)
                self.bucket.write(
                    layout.checksum_key(self.server, info.backup_id, number), msgspec.json.encode(checksum)
                )
            done += _bytes_of(part)
            progress(done, total)
        self.parts(info.backup_id)
        self.bucket.write(layout.info_key(self.server, info.backup_id), info.dump())

    def _upload_part(self, backup_id: str, number: int, tree: Path, part: list[Path]) -> Checksum:
        with self.bucket.writer(layout.part_key(self.server, backup_id, number)) as raw:
            counted = _Checksumming(raw)
            with (
                gzip.GzipFile("", "wb", _LEVEL, cast(IO[bytes], counted), mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w|") as tar,
            ):
                for path in part:
                    tar.add(path, arcname=str(path.relative_to(tree)), recursive=False)
        return Checksum(counted.size_bytes, counted.sha256.hexdigest())

    def verify_part(self, backup_id: str, number: int, checksum: Checksum) -> None:
        """Read a part and compare it with its checksum. Raises Failed, naming the part, when it differs."""
        with self._reading(backup_id, number, checksum) as pieces:
            for _ in pieces:
                pass

    def sizes(self) -> dict[str, int]:
        """Return the bytes in the store of each base backup's parts, by its id; of incomplete ones too."""
        found = dict[str, int]()
        for each in self.bucket.objects(layout.base_prefix(self.server)):
            backup_id = layout.backup_id_of_part(each.key)
            if backup_id is not None:
                found[backup_id] = found.get(backup_id, 0) + each.size_bytes
        return found

    def parts(self, backup_id: str) -> list[Checksum]:
        """Return what each part must be, in order. Raises Failed when parts or checksums are missing."""
        found = self.checksums(backup_id)
        keys = {each.key for each in self.bucket.objects(layout.base_prefix(self.server, backup_id))}
        wanted = {layout.part_key(self.server, backup_id, number) for number in range(len(found))}
        there = {key for key in keys if layout.backup_id_of_part(key) is not None}
        for key in sorted(wanted ^ there):
            if key in wanted and self.bucket.size_bytes(key) is not None:  # a listing may be behind
                continue
            what = "is missing from" if key in wanted else "has no checksum in"
            raise Failed(ARCHIVE_INCOMPLETE, f"{key} {what} the archive {self.bucket.url}")
        return found

    def unpack(
        self,
        backup_id: str,
        number: int,
        checksum: Checksum,
        tree: Path,
        owner: tuple[int, int],
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        """Unpack a part into a directory, for a user and group; one that was unpacked half before is so once more.

        `progress` gets the bytes of each piece; what it raises ends the download. Raises Failed when the part is
        missing or is not what was uploaded.
        """
        with self._reading(backup_id, number, checksum) as pieces:
            source = cast(IO[bytes], _Pieces(pieces, progress))
            with tarfile.open(fileobj=source, mode="r|gz") as tar:
                tar.extraction_filter = _unchanged
                for member in tar:
                    fault = _fault_of(member, tree)
                    if fault is not None:
                        where = f"{layout.part_key(self.server, backup_id, number)} in the archive {self.bucket.url}"
                        raise Failed("ARCHIVE_DAMAGED", f"{where} holds {member.name[:100]!r}, which is {fault}")
                    tar.extract(_for_owner(member, owner), tree, numeric_owner=True)
            source.read()

    def verify(self, info: BackupInfo) -> None:
        """Read a base backup and compare it with its checksums. Raises Failed, naming the part that differs."""
        for number, checksum in enumerate(self.parts(info.backup_id)):
            self.verify_part(info.backup_id, number, checksum)

    def delete(self, backup_id: str) -> None:
        """Remove a base backup; its description goes first. May run twice."""
        self.bucket.delete([layout.info_key(self.server, backup_id)])
        keys = [found.key for found in self.bucket.objects(layout.base_prefix(self.server, backup_id))]
        self.bucket.delete(keys)

    def checksums(self, backup_id: str) -> list[Checksum]:
        """Return what each part must be, in order. Raises Failed when there is none, or one is damaged."""
        found = list[Checksum]()
        while (checksum := self._checksum(backup_id, len(found))) is not None:
            found.append(checksum)
        if not found:
            raise Failed(ARCHIVE_INCOMPLETE, f"Base backup {backup_id} in the archive {self.bucket.url} has no parts")
        return found

    def _checksum(self, backup_id: str, number: int) -> Checksum | None:
        key = layout.checksum_key(self.server, backup_id, number)
        content = self.bucket.read(key)
        try:
            return None if content is None else msgspec.json.decode(content, type=Checksum)
        except msgspec.DecodeError as error:
            raise Failed("ARCHIVE_DAMAGED", f"{key} in the archive {self.bucket.url} is damaged: {error}") from error

    def _is_uploaded(self, backup_id: str, number: int) -> bool:
        """Tell whether a part was uploaded, and is there: with a damaged checksum it is uploaded once more."""
        try:
            checksum = self._checksum(backup_id, number)
        except Failed:
            return False
        size_bytes = self.bucket.size_bytes(layout.part_key(self.server, backup_id, number))
        return checksum is not None and checksum.size_bytes == size_bytes

    @contextlib.contextmanager
    def _reading(self, backup_id: str, number: int, checksum: Checksum) -> Iterator[Iterator[bytes]]:
        """Yield the pieces of a part. Raises Failed at the end when they are not what was uploaded."""
        key, sha256, size_bytes = layout.part_key(self.server, backup_id, number), hashlib.sha256(), 0

        def pieces() -> Iterator[bytes]:
            nonlocal size_bytes
            try:
                for piece in self.bucket.stream(key):
                    sha256.update(piece)
                    size_bytes += len(piece)
                    yield piece
            except FileNotFoundError as error:
                raise Failed(ARCHIVE_INCOMPLETE, f"{key} is missing from the archive {self.bucket.url}") from error

        try:
            yield pieces()
        except (tarfile.TarError, EOFError) as error:
            raise Failed("ARCHIVE_DAMAGED", f"{key} in the archive {self.bucket.url} is damaged: {error}") from error
        if Checksum(size_bytes, sha256.hexdigest()) != checksum:
            raise Failed("ARCHIVE_DAMAGED", f"{key} in the archive {self.bucket.url} is not what was uploaded")


def _parts(tree: Path, part_bytes: int) -> Iterator[list[Path]]:
    """Yield the files and directories of a tree in parts of about `part_bytes`, each directory before its files."""
    part, size_bytes = list[Path](), 0
    for path in _walk(tree):
        file_bytes = path.lstat().st_size if path.is_file() else 0
        if part and size_bytes + file_bytes > part_bytes:
            yield part
            part, size_bytes = [], 0
        part.append(path)
        size_bytes += file_bytes
    yield part


def _walk(tree: Path) -> Iterator[Path]:
    for directory, directories, names in os.walk(tree):
        directories.sort()
        yield Path(directory)
        for name in sorted(names):
            yield Path(directory, name)


def _bytes_of(part: list[Path]) -> int:
    return sum(path.lstat().st_size for path in part if path.is_file())


def _fault_of(member: tarfile.TarInfo, tree: Path) -> str | None:
    """Say why a member must not be unpacked into a tree; None when it may be.

    The filters of tarfile would do that, but Python has them since 3.11.4, and Debian 12 has 3.11.2.
    """
    if not (member.isreg() or member.isdir()):  # through a link one could write elsewhere
        return "neither a file nor a directory"
    inside = os.path.realpath(tree)
    if not Path(os.path.realpath(Path(inside, member.name))).is_relative_to(inside):
        return "not within the directory"
    return None


def _for_owner(member: tarfile.TarInfo, owner: tuple[int, int]) -> tarfile.TarInfo:
    """Let a file or directory of another machine, where the same user may have another number, be a user's of this."""
    member.mode &= 0o777
    member.uid, member.gid = owner
    return member


def _unchanged(member: tarfile.TarInfo, _path: str) -> tarfile.TarInfo:
    """Be the filter of Python 3.14, which would leave the owner as it is."""
    return member


class _Checksumming:
    """A file to write to that computes the checksum of what passes through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size_bytes = 0

    def write(self, content: bytes) -> int:
        self.sha256.update(content)
        self.size_bytes += len(content)
        self._file.write(content)
        return len(content)


class _Pieces:
    """A file to read from over an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes], progress: Callable[[int], None]) -> None:
        self._pieces = pieces
        self._progress = progress
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        found = [self._rest]
        length = len(self._rest)
        while (size < 0 or length < size) and (piece := next(self._pieces, None)) is not None:
            found.append(piece)
            length += len(piece)
            self._progress(len(piece))
        joined = b"".join(found)
        if size < 0:
            size = length
        self._rest = joined[size:]
        return joined[:size]
