"""Errors of steps are reported in sentences."""

import errno
import os
import subprocess

import pytest

from ramet.errors import Failed
from ramet.operations.words import in_words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Failed("DISK_GONE", "The disk is gone", "Bring it back."), "The disk is gone: Bring it back."),
        (TimeoutError(), "What the step waited for did not come in time"),
        (TimeoutError("the clock stays behind"), "the clock stays behind"),
        (subprocess.TimeoutExpired(["/usr/bin/initdb", "-D", "x"], 300.0), "initdb did not end within 300 s"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "/data"), "Input/output error: /data"),
        (TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)), "Connection timed out"),
        (KeyError("lost"), "KeyError: 'lost'"),
    ],
)
def test_an_error_is_reported_in_words(error: Exception, words: str) -> None:
    assert in_words(error) == words
