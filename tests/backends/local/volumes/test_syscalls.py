"""System calls that Python does not offer."""

import ctypes
import errno
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from ramet.backends.local.volumes import syscalls
from ramet.backends.local.volumes.syscalls import NotFlushed, sync_tree, write_back


class RefusingLibrary:
    """The C library on a disk that cannot be written."""

    def __getattr__(self, _name: str) -> Callable[..., int]:
        def refuse(*_arguments: object) -> int:
            ctypes.set_errno(errno.EIO)
            return -1

        return refuse


def test_syncing_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    sync_tree(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_tree(tmp_path / "nowhere")


def test_a_flush_that_failed_is_told_from_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "1259"
    with file.open("wb") as opened:
        write_back(opened.fileno())
        monkeypatch.setattr(syscalls, "_libc", RefusingLibrary())
        with pytest.raises(NotFlushed) as of_file:
            write_back(opened.fileno())
    with pytest.raises(NotFlushed) as of_all:
        sync_tree(tmp_path)
    assert (of_file.value.errno, of_file.value.filename) == (errno.EIO, str(file))
    sent = pickle.loads(pickle.dumps(of_all.value))  # noqa: S301 - as from a helper process
    assert (type(sent), sent.errno, sent.filename) == (NotFlushed, errno.EIO, str(tmp_path))
