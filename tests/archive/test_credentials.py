"""Credentials, region and endpoint from where AWS's tools take them: variables, files, and an instance profile."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.archive import aws_profile
from ramet.archive.object_store import open_bucket
from ramet.errors import Invalid


@dataclass
class Cloud:
    """A machine's metadata service and an object store in one, which notes who asks in which region."""

    url: str = ""
    lifetime: timedelta = timedelta(hours=1)
    key: str = "INSTANCEKEY1"
    asked: list[str] = field(default_factory=list)

    def signers(self) -> list[tuple[str, str]]:
        """Return the key and region of each request to the object store."""
        credentials = (each.partition("Credential=")[2].split(",")[0].split("/") for each in self.asked)
        return [(found[0], found[2]) for found in credentials]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cloud]:
    found = Cloud()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer(b"token")

        def do_GET(self) -> None:
            path = "/latest/meta-data/iam/security-credentials/"
            if self.path == path:
                self._answer(b"role")
            elif self.path.startswith(path):
                until = (datetime.now(UTC) + found.lifetime).strftime("%Y-%m-%dT%H:%M:%SZ")
                keys = {"AccessKeyId": found.key, "SecretAccessKey": "s", "Token": "t", "Expiration": until}
                self._answer(json.dumps(keys).encode())
            else:
                found.asked.append(self.headers["Authorization"])
                self._answer(b"content")

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            for name, value in {
                "Content-Length": str(len(content)),
                "ETag": '"1"',
                "Last-Modified": "Sun, 22 Nov 2026 22:00:00 GMT",
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", found.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
    (tmp_path / ".aws").mkdir()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def profile(home: Path, key: str, name: str = "default") -> None:
    content = f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = secret\n"
    (home / ".aws" / "credentials").write_text(content)


def test_variables_come_first(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(tmp_path, "PROFILEKEY")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "VARIABLEKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert open_bucket("s3://bucket").read("a") == b"content"
    assert cloud.signers() == [("VARIABLEKEY", "eu-west-1")]


def test_a_profile_gives_keys_region_endpoint(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(tmp_path, "PROFILEKEY", "backup")
    settings = f"[profile backup]\nregion = eu-north-1\nendpoint_url = {cloud.url}\n"
    (tmp_path / ".aws" / "config").write_text(settings)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_PROFILE", "backup")
    assert open_bucket("s3://bucket").read("a") == b"content"
    assert cloud.signers() == [("PROFILEKEY", "eu-north-1")]


def test_a_machine_without_keys_uses_its_instance_profile(cloud: Cloud) -> None:
    assert open_bucket("s3://bucket").read("a") == b"content"
    assert cloud.signers() == [("INSTANCEKEY1", "us-east-1")]


def test_keys_of_a_profile_that_are_rotated_are_used_once_they_are_read_again(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws_profile, "_REREAD_AFTER", timedelta(0))  # a minute, in production
    profile(tmp_path, "OLDKEY")
    bucket = open_bucket("s3://bucket")
    bucket.read("a")
    profile(tmp_path, "NEWKEY")
    bucket.read("a")
    assert [key for key, _ in cloud.signers()] == ["OLDKEY", "NEWKEY"]


def test_keys_of_an_instance_profile_are_fetched_again_before_they_expire(cloud: Cloud) -> None:
    cloud.lifetime = timedelta(minutes=4)
    bucket = open_bucket("s3://bucket")
    bucket.read("a")
    cloud.key = "INSTANCEKEY2"

    def is_rotated() -> bool:
        bucket.read("a")
        return cloud.signers()[-1][0] == "INSTANCEKEY2"

    eventually(is_rotated)


@pytest.mark.parametrize("content", [b"key = secret\n", b"[default]\na=1\na=2\n", b"[default]\na=\xff\n"])
def test_a_file_that_has_no_profiles_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    path = tmp_path / "credentials"
    path.write_bytes(content)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    with pytest.raises(Invalid, match=f"cannot be used: {path} is not a valid file of AWS profiles") as refused:
        open_bucket("s3://bucket/prefix")
    assert "secret" not in str(refused.value)
