"""Files with a secret: what was given out survives a power failure."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ramet.machine.secret_files import kept_secret, replace_secret


@pytest.mark.parametrize(
    "write", [lambda path: kept_secret(path, lambda: b"key"), lambda path: replace_secret(path, b"key")]
)
def test_the_name_of_a_secret_is_on_disk_when_it_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    flushed: list[set[str]] = []
    flush = os.fsync

    def watched(descriptor: int) -> None:
        flush(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            flushed.append({path.name for path in Path(f"/proc/self/fd/{descriptor}").iterdir()})

    monkeypatch.setattr(os, "fsync", watched)
    write(tmp_path / "archive.key")
    assert flushed[-1:] == [{"archive.key"}]


@pytest.mark.parametrize(
    "write", [lambda path: kept_secret(path, lambda: b"key"), lambda path: replace_secret(path, b"key")]
)
@pytest.mark.parametrize("failing", ["fsync", "link", "replace"])
def test_nothing_of_a_secret_remains_beside_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object], failing: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with suppress(OSError):
        write(tmp_path / "archive.key")
    assert [path.name for path in tmp_path.iterdir() if path.name != "archive.key"] == []


def test_an_open_file_is_written_into_and_stays(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("earlier, ")
    with (tmp_path / "out.json").open("ab") as file:
        before = os.fstat(file.fileno()).st_ino
        replace_secret(Path(f"/dev/fd/{file.fileno()}"), b"first, ")
        replace_secret(Path(f"/proc/self/fd/{file.fileno()}"), b"second")
        assert (tmp_path / "out.json").read_text() == "earlier, first, second"
        assert (tmp_path / "out.json").stat().st_ino == before


def test_a_link_that_anybody_may_have_made_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "other", tmp_path / "archive.key"
    target.write_bytes(b"other")
    link.symlink_to(target)
    replace_secret(link, b"key")
    assert (link.is_symlink(), link.read_bytes(), target.read_bytes()) == (False, b"key", b"other")


def test_a_pipe_is_written_into_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    replace_secret(pipe, b"key")
    assert pipe.is_fifo()
    reader.join(60)
    assert received == [b"key"]
