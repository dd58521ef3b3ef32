"""Empty clusters as initdb makes them: to copy one takes a tenth of the time, so each process of the tests makes one.

Copies have the same system identifier, like a fork and its parent.
"""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process import postgres
from ramet.machine.installation import Installation

_real = postgres.initialize


@functools.cache
def initialized(initdb: str, user: str | None, *options: str, password: str = "") -> Path:
    """Return a data directory that initdb has made, to be copied; it is removed when this process ends."""
    directory = _directory()
    if user is not None:
        shutil.chown(directory, user)
    if password:
        (directory / "password").write_text(password)
        (directory / "password").chmod(0o644)
        options = (*options, "--pwfile", str(directory / "password"))
    command = [initdb, "-D", str(directory / "data"), "--no-sync", *options]
    done = subprocess.run(command, user=user, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"initdb failed: {done.stderr[-2000:]}")
    return directory / "data"


def copy(made: Path, data: Path) -> None:
    """Copy a data directory into one that is empty or does not exist."""
    options = ("--recursive", "--reflink=auto", "--preserve=mode,ownership", "--no-target-directory")
    done = subprocess.run(["cp", *options, str(made), str(data)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"The empty cluster cannot be copied: {done.stderr[-2000:]}")


@contextmanager
def copied() -> Iterator[None]:
    """Let the local backend of this process copy what it has made once; `own` tells it to run initdb again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "initialize", _copy_initialized)
        yield


@contextmanager
def own() -> Iterator[None]:
    """Let the local backend run initdb for each service: each has a system identifier of its own then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "initialize", _real)
        yield


def _copy_initialized(paths: ServicePaths, installation: Installation, account: Account, platform_role: str) -> None:
    copy(_initialized(installation, account, platform_role), paths.data)


@functools.cache
def _initialized(installation: Installation, account: Account, platform_role: str) -> Path:
    directory = _directory()
    paths = ServicePaths(directory, directory)
    account.make_directory(paths.data)
    _real(paths, installation, account, platform_role)
    return paths.data


def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="ramet-test-cluster-"))
    directory.chmod(0o711)
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: Path, maker: int) -> None:
    if os.getpid() == maker:  # not in a process that a test has forked
        shutil.rmtree(directory)
