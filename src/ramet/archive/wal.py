"""The WAL of one server in the object store: each file once, compressed, replaced only where it is damaged."""

import gzip
import hashlib
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

from ramet.archive import layout
from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.archive.object_store import Bucket
from ramet.errors import Failed

_LEVEL = 1  # a segment takes a third of the CPU of the default level, for a few percent more bytes


@dataclass(frozen=True)
class WalArchive:
    """The WAL below one server's name."""

    bucket: Bucket
    server: str

    def names(self) -> set[str]:
        """Return the names of all WAL files that the store has."""
        return set(self.sizes())

    def sizes(self, after: str | None = None) -> dict[str, int]:
        """Return the bytes in the store of each WAL file by its name; with `after` of the segments after that one."""
        key = None if after is None else layout.wal_key(self.server, after)
        found = self.bucket.objects(layout.wal_prefix(self.server), key)
        return {name: each.size_bytes for each in found if (name := layout.wal_name(each.key)) is not None}

    def upload(self, path: Path) -> str:
        """Store a complete WAL file, also over a damaged one, and return the SHA-256 of its content. May run twice.

        Raises Failed when the store has another content under this name: two servers would share one archive.
        """
        content = path.read_bytes()
        key, packed = layout.wal_key(self.server, path.name), gzip.compress(content, _LEVEL, mtime=0)
        found = content if self.bucket.create(key, packed) else self._undamaged(path.name)
        if found is None:
            self.bucket.write(key, packed)
        elif found != content:
            raise Failed(
                "ARCHIVE_CONFLICT",
                f"The archive {self.bucket.url} has another {path.name} of service {self.server}",
                "Another installation writes under the same URL: give each installation its own URL.",
            )
        return hashlib.sha256(content).hexdigest()

    def note_end(self, name: str) -> None:
        """Note the last segment that was sent: without that, the loss of the newest ones is not noticed."""
        self.bucket.write(layout.end_key(self.server), name.encode())

    def end(self) -> str | None:
        """Return the name of the last segment that was sent, None where none is noted."""
        name = (self.bucket.read(layout.end_key(self.server)) or b"").decode(errors="replace")
        return name if layout.is_wal_file(name) else None

    def has(self, name: str) -> bool:
        """Tell whether the store has a WAL file."""
        return self.bucket.size_bytes(layout.wal_key(self.server, name)) is not None

    def download(self, name: str) -> bytes:
        """Return the content of a WAL file. Raises Failed when it is missing or damaged."""
        return self.decompressed(name, self.compressed(name))

    def _undamaged(self, name: str) -> bytes | None:
        """Return the content of a WAL file, None where it is damaged. Raises Failed when it is missing."""
        stored = self.compressed(name)
        try:
            return self.decompressed(name, stored)
        except Failed:
            return None

    def compressed(self, name: str) -> bytes:
        """Return a WAL file as it is stored. Raises Failed when it is missing."""
        found = self.bucket.read(layout.wal_key(self.server, name))
        if found is None:
            raise Failed(ARCHIVE_INCOMPLETE, f"The archive {self.bucket.url} lacks {name} of service {self.server}")
        return found

    def decompressed(self, name: str, stored: bytes) -> bytes:
        """Return the content of what is stored of a WAL file. Raises Failed when that is damaged."""
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(stored)) as file:
                content = file.read(layout.SEGMENT_BYTES + 1)  # what is stored may have been made to need all memory
        except (OSError, EOFError, zlib.error):
            content = b""
        if not 0 < len(content) <= layout.SEGMENT_BYTES:
            damaged = f"{name} of service {self.server} in the archive {self.bucket.url} is damaged"
            raise Failed("ARCHIVE_DAMAGED", damaged)
        return content
