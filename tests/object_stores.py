"""A real S3 server over HTTP, with a bucket for each test."""

from collections.abc import Iterator

import httpx
import pytest

from harness.object_stores import object_store
from ramet.archive.object_store import Bucket, open_bucket
from ramet.ids import new_id


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store("moto", tmp_path_factory.mktemp("objects")) as store:
        yield store.endpoint


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(s3_environment: None, s3_endpoint: str) -> Bucket:
    """A new bucket, opened by its URL with a prefix."""
    name = f"bucket-{new_id()}"
    httpx.put(f"{s3_endpoint}/{name}").raise_for_status()
    return open_bucket(f"s3://{name}/the/prefix")
