"""One pool a driver for the whole run, and a fresh directory in it for each test."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.pool import Pool
from tests.backends.local.pools import DRIVERS, make_pool


@pytest.fixture(scope="session", params=DRIVERS)
def pool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with make_pool(tmp_path_factory.mktemp(request.param), request.param) as pool:
        yield pool


@pytest.fixture
def driver(pool: Pool) -> Driver:
    return pool.driver


@pytest.fixture
def place(pool: Pool) -> Iterator[Path]:
    place = pool.path / secrets.token_hex(4)
    place.mkdir()
    yield place
    pool.driver.remove_tree(place)


@pytest.fixture
def source(driver: Driver, place: Path) -> Path:
    """A small tree in the manner of a data directory."""
    source = place / "source"
    driver.create_tree(source)
    for directory in ("base/1", "base/pgsql_tmp", "global", "pg_wal/archive_status", "pg_stat_tmp"):
        (source / directory).mkdir(parents=True)
    (source / "PG_VERSION").write_text("15\n")
    (source / "postmaster.pid").write_text("1\n")
    (source / "empty").touch()
    (source / "base/1/1259").write_bytes(bytes(range(256)) * 1024)
    (source / "base/1/pg_internal.init.77").write_text("x")
    (source / "base/pgsql_tmp/pgsql_tmp5.0").write_text("x")
    (source / "global/pg_control").write_bytes(b"c" * 8192)
    (source / "pg_wal/000000010000000000000001").write_bytes(b"w" * 65536)
    (source / "pg_stat_tmp/global.stat").write_text("x")
    return source
