"""The fixtures of a real S3 server, and a world whose catalogue is published there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_stores import bucket, s3_endpoint, s3_environment
from tests.stores import postgresql_server, postgresql_url
from tests.worlds import World, make_world

__all__ = ["bucket", "postgresql_server", "postgresql_url", "s3_endpoint", "s3_environment"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """The directory of secrets of an installation."""
    directory = tmp_path / "secrets"
    directory.mkdir()
    for name in ("ca.crt", "ca.key", "root.key"):
        (directory / name).write_bytes(f"the {name}".encode())
    return directory
