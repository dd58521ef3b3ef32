"""An object store below a URL: what is read, written and listed there, with errors that say what to do.

Keys are relative to the prefix of the URL. Writing is atomic: an object is there as a whole or not at all. Every method
raises Unavailable when the store cannot be reached or refuses the credentials: it may answer later, or with other keys.
"""

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import GCSStore, LocalStore, ObjectStore, S3Store, from_url

from ramet.archive.aws_profile import profile_credentials, profile_settings
from ramet.errors import Invalid, Unavailable

SCHEMES = ("s3", "gs", "az", "file")
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile",
    "gs": "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "file": "the mode and owner of the directory",
}
_CLIENT = {"connect_timeout": "5s", "timeout": "60s", "allow_http": True}
_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
# Who asks for a fork waits for listings, and gives up after 30 seconds.
_LISTING_CLIENT = {**_CLIENT, "timeout": "15s"}
_LISTING_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=10)}
_LISTING_SECONDS = 10.0
_PART_BYTES = 16 * 1024 * 1024
_READ_BYTES = 16 * 1024 * 1024  # of a large object by one request
_PIECE_BYTES = 1024 * 1024
_CONCURRENT_PARTS = 2
_LISTINGS = 5
_Listing = TypeVar("_Listing")
_UNSTABLE = re.compile(r" in [0-9.]+(?:ns|µs|ms|s)\b|(?<=\w)\?\S+")  # how long it took, and queries of URLs
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REFUSED = re.compile(r"status code: 40[13]\b")
_WRONG_CLOCK = ("RequestTimeTooSkewed", "RequestExpired")


@dataclass(frozen=True)
class StoredObject:
    """An object that a listing shows: its key, its size in bytes, and when it was written, by the store's clock."""

    key: str
    size_bytes: int
    written_at: datetime


class Bucket:
    """The part of an object store that one URL names. Safe to share between threads."""

    def __init__(self, url: str, store: ObjectStore, lister: ObjectStore | None = None) -> None:
        self.url = url
        self._given = store
        self._given_lister = lister or store

    @property
    def _store(self) -> ObjectStore:
        return self._given

    @property
    def _lister(self) -> ObjectStore:
        return self._given_lister

    def read(self, key: str) -> bytes | None:
        """Return the content of an object, or None when there is no such object."""
        found = self.read_version(key)
        return None if found is None else found[0]

    def stream(self, key: str) -> Iterator[bytes]:
        """Return the content of an object in pieces. Raises FileNotFoundError when there is no such object.

        The time-out of a request includes its whole answer, so a large object is read by many requests.
        """
        with self._named(key):
            found, done_bytes = obstore.get(self._store, key), 0
            size_bytes, e_tag = found.meta["size"], found.meta["e_tag"]
            while True:
                end = min(done_bytes + _READ_BYTES, size_bytes)
                for piece in found.stream(min_chunk_size=_PIECE_BYTES):
                    done_bytes += len(piece)
                    yield bytes(piece)
                    if done_bytes >= end:
                        break
                if done_bytes >= size_bytes:
                    return
                found = self._next_range(key, done_bytes, min(done_bytes + _READ_BYTES, size_bytes), e_tag)

    def _next_range(self, key: str, begin: int, end: int, e_tag: str | None) -> Any:
        """Ask for a part of an object. Raises Unavailable when it has another ETag than before.

        A weak ETag matches nothing (RFC 9110, 13.1.1). Without one the digest of what was read has to show a change.
        """
        wanted: Any = {"range": (begin, end)}
        if e_tag is not None and not e_tag.startswith("W/"):
            wanted["if_match"] = e_tag
        try:
            return obstore.get(self._store, key, options=wanted)
        except PreconditionError as error:
            changed = f"{key} in the archive {self.url} was written again while it was read"
            raise Unavailable("ARCHIVE_UNAVAILABLE", changed) from error

    def size_bytes(self, key: str) -> int | None:
        """Return the size of an object, or None when there is no such object."""
        with contextlib.suppress(FileNotFoundError), self._named(key):
            return int(obstore.head(self._store, key)["size"])
        return None

    def write(self, key: str, content: bytes) -> None:
        """Write an object, also over an earlier one."""
        with self._named(key):
            obstore.put(self._store, key, content)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that must not exist yet; False when one exists already, which stays as it is."""
        with self._named(key):
            try:
                obstore.put(self._store, key, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def read_version(self, key: str) -> tuple[bytes, Any] | None:
        """Return the content of an object and its version for `replace`, or None when there is no such object."""
        with contextlib.suppress(FileNotFoundError), self._named(key):
            found = obstore.get(self._store, key)
            version = {name: value for name in ("e_tag", "version") if (value := found.meta.get(name)) is not None}
            return bytes(found.bytes()), version
        return None

    def replace(self, key: str, content: bytes, version: Any) -> bool:
        """Write an object if it still has the version that `read_version` returned; False when it has another one."""
        with self._named(key):
            try:
                obstore.put(self._store, key, content, mode=version, use_multipart=False)
            except (PreconditionError, FileNotFoundError):
                return False
        return True

    @contextlib.contextmanager
    def writer(self, key: str) -> Iterator[IO[bytes]]:
        """Open an object for writing in parts. It appears when the block ends, and not at all when the block raises."""
        with self._named(key):
            writer = obstore.open_writer(self._store, key, buffer_size=_PART_BYTES, max_concurrency=_CONCURRENT_PARTS)
        yield cast(IO[bytes], _NamedWriter(cast(IO[bytes], writer), lambda: self._named(key)))
        with self._named(key):
            try:
                writer.close()
            except FileNotFoundError:
                # The answer to the last request was lost, and its repetition found the upload complete.
                if self.size_bytes(key) is None:
                    raise

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Return the objects below a prefix, which ends in a slash; with `after` those of later keys only."""
        with self._named(prefix):
            pages = _listed(lambda: list(obstore.list(self._lister, prefix, offset=after, chunk_size=1000)))
            for found in itertools.chain.from_iterable(pages):
                yield StoredObject(found["path"], found["size"], found["last_modified"])

    def directories(self, prefix: str = "") -> list[str]:
        """Return the names of the directories directly below a prefix."""
        with self._named(prefix):
            found = _listed(lambda: obstore.list_with_delimiter(self._lister, prefix or None))
            return sorted(name.rstrip("/").rpartition("/")[2] for name in found["common_prefixes"])

    def delete(self, keys: list[str]) -> None:
        """Remove objects; those that do not exist are ignored."""
        with self._named(self.url):
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, key)

    @contextlib.contextmanager
    def _named(self, key: str) -> Iterator[None]:
        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except (BaseError, OSError) as error:
            failure = self._failure(error, key)
            if failure is None:
                raise
            raise failure from error

    def _failure(self, error: Exception, key: str) -> Unavailable | None:
        """Return what went wrong, by the code in the store's answer; None when an object does not exist."""
        answer = str(error)
        code = found[1] if (found := _CODE.search(answer)) else ""
        if code in _WRONG_CLOCK:
            return Unavailable(
                "ARCHIVE_CLOCK_SKEW",
                f"The archive {self.url} refuses requests, because the clock of this host is wrong ({code})",
                "Set the clock (timedatectl set-ntp true). Archiving then continues by itself.",
            )
        if code == "NoSuchBucket":
            return Unavailable(
                "ARCHIVE_BUCKET_MISSING",
                f"The bucket of the archive {self.url} does not exist",
                "Create it, or correct the URL.",
            )
        # Errors of listings have no class of their own.
        if isinstance(error, UnauthenticatedError | PermissionDeniedError) or _REFUSED.search(answer):
            return Unavailable(
                "ARCHIVE_REFUSED",
                f"The archive {self.url} refuses the credentials" + (f" ({code})" if code else ""),
                f"Check {_CREDENTIALS[urlsplit(self.url).scheme]}, and the rights on the bucket.",
            )
        if isinstance(error, FileNotFoundError):
            return None
        # Without what differs each time, the same problem has the same message each time, and is logged once.
        reason = _UNSTABLE.sub("", answer.partition("\n")[0])[:300]
        return Unavailable("ARCHIVE_UNAVAILABLE", f"The archive {self.url} does not answer: {reason}", key)


class _NamedWriter:
    """A file to write to whose errors name the archive: those of who reads what is written are about something else."""

    def __init__(self, writer: IO[bytes], named: Callable[[], AbstractContextManager[None]]) -> None:
        self._writer = writer
        self._named = named

    def write(self, content: bytes) -> int:
        with self._named():
            return self._writer.write(content)


class Directory(Bucket):
    """A mounted directory. What was written is on its disk; it is never made, because that would hide a lost mount."""

    def __init__(self, url: str, root: Path) -> None:
        self.url = url
        self._root = root

    @property
    def _store(self) -> ObjectStore:
        return LocalStore(self._root)  # cheap; and impossible while the directory does not exist

    @property
    def _lister(self) -> ObjectStore:
        return self._store

    def write(self, key: str, content: bytes) -> None:
        """Write an object, also over an earlier one."""
        with self._flushed(key, content) as unnamed:
            unnamed.replace(self._root / key)
        self._keep(key)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that must not exist yet; False when one exists already, which stays as it is."""
        is_new = True
        with self._flushed(key, content) as unnamed:
            try:
                os.link(unnamed, self._root / key)
            except FileExistsError:
                is_new = False
        self._keep(key)  # also one that exists: who has created it may have been killed before it was kept
        return is_new

    @contextlib.contextmanager
    def _flushed(self, key: str, content: bytes) -> Iterator[Path]:
        """Yield a private file with the content of an object, on disk, which listings leave out.

        No object has its name before: after a flush that failed, it can be read, and the next flush succeeds.
        """
        path = self._root / key
        unnamed = path.with_name(f"{path.name}#{secrets.randbelow(10**12)}")
        with self._named(key):
            for above in list(path.relative_to(self._root).parents)[-2::-1]:
                (self._root / above).mkdir(exist_ok=True)
            try:
                with open(unnamed, "xb", opener=partial(os.open, mode=0o600)) as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                yield unnamed
            finally:
                unnamed.unlink(missing_ok=True)

    def replace(self, key: str, content: bytes, version: Any) -> bool:
        """Write an object if it still has the version that `read_version` returned; False when it has another one."""
        with self._named(key), (self._root / f"{key}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self.read_version(key)
            if found is None or found[1] != version:
                return False
            self.write(key, content)
        return True

    @contextlib.contextmanager
    def writer(self, key: str) -> Iterator[IO[bytes]]:
        """Open an object for writing. It appears when the block ends, and not at all when the block raises."""
        path = self._root / key
        for abandoned in path.parent.glob(f"{path.name}#*"):  # parts of a writer that was killed
            abandoned.unlink(missing_ok=True)
        with super().writer(key) as writer:
            yield writer
        with self._named(key):
            path.chmod(0o600)
        self._keep(key)

    def _keep(self, key: str) -> None:
        """Flush an object, which may belong to another user, and the directories that lead to it."""
        with self._named(key):
            path = self._root / key
            for each in (path, *path.parents):
                descriptor = os.open(each, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                if each == self._root:
                    return

    @contextlib.contextmanager
    def _named(self, key: str) -> Iterator[None]:
        if not self._root.is_dir():
            raise Unavailable(
                "ARCHIVE_BUCKET_MISSING",
                f"The directory of the archive {self.url} does not exist",
                "Mount it, or correct the URL.",
            )
        with super()._named(key):
            yield


def _listed(ask: Callable[[], _Listing]) -> _Listing:
    """Return a listing. It is asked for again when an answer ends early: the library repeats other requests only."""
    deadline = time.monotonic() + _LISTING_SECONDS
    for _ in range(_LISTINGS - 1):
        try:
            return ask()
        except BaseError as error:
            if "list response body" not in str(error) or time.monotonic() > deadline:
                raise
    return ask()


def open_bucket(url: str) -> Bucket:
    """Return the bucket of a URL: s3://, gs://, az:// or file://. Nothing is contacted yet.

    Credentials, region and endpoint come from the usual variables of each provider, for S3 also from the profile files.
    Raises Invalid for another scheme, a missing bucket, or an unknown option in the URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or parts.query or parts.username or bool(parts.netloc) is (parts.scheme == "file"):
        raise Invalid(
            "INVALID_ARCHIVE_URL",
            f"The archive URL {url!r} must be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix"
            " or file:///directory",
        )
    try:
        if parts.scheme == "file":
            return Directory(url, Path(unquote(parts.path)))
        lister = _open(url, client=_LISTING_CLIENT, retries=_LISTING_RETRIES)
        return Bucket(url, _open(url, client=_CLIENT, retries=_RETRIES), lister)
    except (BaseError, UnknownConfigurationKeyError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise Invalid("INVALID_ARCHIVE_URL", f"The archive URL {url!r} cannot be used: {reason}") from error


def _open(url: str, *, client: dict[str, Any], retries: dict[str, Any]) -> ObjectStore:
    parts = urlsplit(url)
    prefix = parts.path.strip("/") or None
    options: dict[str, Any] = {"client_options": client, "retry_config": retries}
    match parts.scheme:
        case "s3":
            provider = None if "AWS_ACCESS_KEY_ID" in os.environ else profile_credentials(os.environ)
            if provider is not None:
                options["credential_provider"] = provider
            config = {"checksum_algorithm": "SHA256", **profile_settings(os.environ)}
            return S3Store(parts.netloc, prefix=prefix, config=cast(Any, config), **options)
        case "gs":
            return GCSStore(parts.netloc, prefix=prefix, **options)
        case _:
            return from_url(url, **options)
