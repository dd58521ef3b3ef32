"""S3 servers for tests, benchmarks and proofs: real HTTP, a separate process, nothing left afterwards.

moto is installed for development; versitygw, a second implementation over a directory, is built with Go where there is
one.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from obstore.store import S3Store

from harness.ports import free_port
from harness.waiting import eventually, uninterrupted

VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
STORES = ("moto", "versitygw")
_KEY, _SECRET, _REGION = "archive-key", "archive-secret", "us-east-1"
_BUILD_SECONDS = 900
_PROGRAM = Path.home() / ".cache" / "ramet-proofs" / VERSITYGW.rpartition("@")[2] / "versitygw"


@dataclass(frozen=True)
class ObjectStore:
    """A running S3 server with one empty bucket."""

    name: str
    endpoint: str
    bucket: str
    pid: int

    @property
    def url(self) -> str:
        """The URL of the bucket."""
        return f"s3://{self.bucket}"

    def environment(self, endpoint: str = "") -> dict[str, str]:
        """Return the variables that lead a client there, or to a proxy in front of it."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
            "AWS_DEFAULT_REGION": _REGION,
        }

    def client(self, prefix: str = "") -> S3Store:
        """Return a client of the bucket, or of what is below a prefix, that takes no variable of the environment."""
        return S3Store(
            self.bucket,
            prefix=prefix or None,
            endpoint=self.endpoint,
            access_key_id=_KEY,
            secret_access_key=_SECRET,
            region=_REGION,
            client_options={"allow_http": True, "timeout": "300s"},
        )


@contextlib.contextmanager
def object_store(name: str, root: Path) -> Iterator[ObjectStore]:
    """Run an S3 server with an empty bucket; its files are below `root`."""
    port = free_port()
    directory = root / f"objects-{port}"
    bucket = "archive"
    if name == "versitygw":
        program = versitygw()
        (directory / bucket).mkdir(parents=True)
        words = [str(program), "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(directory)]
    else:
        directory.mkdir()
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    try:
        with _running(words, port, directory) as pid:
            endpoint = f"http://127.0.0.1:{port}"
            if name != "versitygw":
                httpx.put(f"{endpoint}/{bucket}", trust_env=False).raise_for_status()
            yield ObjectStore(name, endpoint, bucket, pid)
    finally:
        shutil.rmtree(directory)


def stores_here() -> list[str]:
    """Return the names of the S3 servers that this machine can run, the fastest first."""
    return [name for name in reversed(STORES) if name != "versitygw" or shutil.which("go") or _PROGRAM.exists()]


def versitygw() -> Path:
    """Build the S3 gateway once, from the Go module proxy; return the program. Raises RuntimeError without Go."""
    if _PROGRAM.exists():
        return _PROGRAM
    if shutil.which("go") is None:
        raise RuntimeError("versitygw cannot be built: this machine has no Go. Use --store moto.")
    environment = {**os.environ, "GOBIN": str(_PROGRAM.parent), "GOFLAGS": "-mod=mod -buildvcs=false"}
    done = subprocess.run(
        ["go", "install", VERSITYGW],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"versitygw cannot be built: {done.stderr.strip()[-500:]}")
    return _PROGRAM


@contextlib.contextmanager
def _running(words: Sequence[str], port: int, directory: Path) -> Iterator[int]:
    keys = {"ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
    log_file = directory.with_suffix(".log")
    with log_file.open("wb") as log, uninterrupted():
        process = subprocess.Popen(
            words, env={**os.environ, **keys}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{words[0]} ended with {process.returncode}: {log_file.read_text()[-1000:]}")
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).status_code < 500
        return False

    try:
        eventually(answers, f"{words[0]} on port {port}", 0.05)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        log_file.unlink()
