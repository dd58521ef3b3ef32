"""WAL segments made by hand for tests: headers as PostgreSQL writes them, and no records."""

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramet.backends.local.host import files
from ramet.backends.local.wal.segment import PAGE_BYTES, SEGMENT_BYTES, Segment

IDENTIFIER = 7_710_575_692_803_751_549
MAGIC = 0xD110
DISK_FAULTS = (errno.EIO, errno.EUCLEAN)  # of content, and of metadata


def write_segment(directory: Path, segment: Segment, *, pages: int = 4, identifier: int = IDENTIFIER) -> Path:
    """Write a segment whose first `pages` pages have headers; the rest is blank, as behind a switch."""
    path = directory / segment.name
    with path.open("wb") as file:
        file.truncate(SEGMENT_BYTES)
        for number in range(pages):
            address = segment.start + number * PAGE_BYTES
            file.seek(number * PAGE_BYTES)
            file.write(struct.pack("<HHIQIxxxx", MAGIC, 0 if number else 2, segment.timeline, address, 0))
            if number == 0:
                file.write(struct.pack("<QII", identifier, SEGMENT_BYTES, PAGE_BYTES))
    return path


def bytes_on_disk(path: Path) -> int:
    """Return what the blocks of a file take."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path.stat().st_blocks * 512


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Put bytes into a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def make_unreadable(monkeypatch: pytest.MonkeyPatch, victim: Path, number: int) -> None:
    """Let this process find a file that the disk cannot read."""

    def failing(act: Callable[..., Any]) -> Callable[..., Any]:
        def fail(path: Path, *arguments: Any, **options: Any) -> Any:
            if path == victim:
                raise OSError(number, os.strerror(number), str(path))
            return act(path, *arguments, **options)

        return fail

    def denying(ask: Callable[[Path], bool]) -> Callable[[Path], bool]:
        return lambda path: path != victim and ask(path)  # as Python does it from 3.14 on

    for name in ("stat", "open"):
        monkeypatch.setattr(Path, name, failing(getattr(Path, name)))
    monkeypatch.setattr(files, "opened", failing(files.opened))
    for name in ("exists", "is_file", "is_dir"):
        monkeypatch.setattr(Path, name, denying(getattr(Path, name)))


def refuse_removal(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let the disk refuse to remove the files of a name."""
    unlink = os.unlink

    def fail(path: str | os.PathLike[str], **options: Any) -> None:
        if Path(path).name == name:
            raise OSError(number, os.strerror(number), str(path))
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", fail)
