"""A PostgreSQL with the stand-in for TimescaleDB of `timescaledb/`, for hosts without TimescaleDB."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ramet.backends.local.server.read_only_module import compile_library, library_of
from ramet.machine.installation import Installation, find_installations
from tests.backends.local.hosts import data_root

_SOURCES = Path(__file__).parent / "timescaledb"


def copyable() -> Installation | None:
    """Return an installation that works from another directory, and for which libraries can be compiled here."""
    return next(
        (one for one in find_installations().found if _is_in_one_place(one) and library_of(one.major).exists()), None
    )


@contextmanager
def installed_stand_in() -> Iterator[None]:
    """Install a copy of PostgreSQL with the stand-in, which is this host's first choice until the end."""
    usual = copyable()
    assert usual is not None
    with data_root() as root, pytest.MonkeyPatch.context() as patch:
        home = usual.bin.parent
        copy = root / home.parent.name / home.name
        shutil.copytree(home, copy, symlinks=True)
        for libraries in home.parent.parent.glob("*.libs"):  # of a wheel, found by their relative path
            (root / libraries.name).symlink_to(libraries)
        share = copy / usual.share.relative_to(home) / "extension"
        for name in ("timescaledb.control", "timescaledb--1.0.sql"):
            shutil.copy(_SOURCES / name, share)
        library = copy / usual.lib.relative_to(home) / "timescaledb.so"
        compile_library(usual, _SOURCES / "timescaledb.c", library)
        patch.setenv("RAMET_PG_BIN", str(copy / "bin"))
        yield


def _is_in_one_place(installation: Installation) -> bool:
    home = installation.bin.parent
    return installation.share.is_relative_to(home) and installation.lib.is_relative_to(home)
