"""The fixtures of a real S3 server and of a mounted directory, for tests of the archive."""

from pathlib import Path

import pytest

from ramet.archive.object_store import Bucket, open_bucket
from tests.object_stores import bucket as s3_bucket
from tests.object_stores import s3_endpoint, s3_environment

__all__ = ["s3_bucket", "s3_endpoint", "s3_environment"]


@pytest.fixture(params=["s3", "file"])
def bucket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """A new bucket of each kind that tests can have."""
    if request.param == "s3":
        found: Bucket = request.getfixturevalue("s3_bucket")
        return found
    root: Path = tmp_path_factory.mktemp("a mounted directory")
    return open_bucket(root.as_uri())
