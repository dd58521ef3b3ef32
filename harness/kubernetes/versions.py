"""The versions of all that the cluster is made of, and where a machine keeps what was built of them."""

import contextlib
import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KUBERNETES = "1.34.4"
CLOUDNATIVE_PG = "1.30.0"
BARMAN_PLUGIN = "0.15.0"
CSI_PROVISIONER = "5.3.0"
CSI_SNAPSHOTTER = "8.7.0"
HELM_VERSION = "3.18.6"
SNAPSHOT_CRDS = "8.6.0"
POSTGRES = "15"
PGBOUNCER = "1.24"

REPOSITORY = Path(__file__).parents[2]
SOURCES = REPOSITORY / "script/lib/kubernetes"


def cache_directory() -> Path:
    """Return the directory that holds whatever was built: RAMET_KUBERNETES_CACHE, or ~/.cache/ramet-kubernetes."""
    configured = os.environ.get("RAMET_KUBERNETES_CACHE")
    return Path(configured) if configured else Path.home() / ".cache/ramet-kubernetes"


def run(*words: str, **options: Any) -> str:
    """Run a program and return its output. Raise RuntimeError with the end of its errors."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        words, capture_output=True, text=True, check=False, **options
    )
    return run_ended(words, done.returncode, done.stdout, done.stderr)


def run_ended(words: tuple[str, ...], status: int, output: str, errors: str) -> str:
    """Return the output of a program that has ended. Raise RuntimeError with the end of its errors if it failed."""
    if status:
        raise RuntimeError(f"{' '.join(words)[:200]} ended with {status}:\n{(errors or output).strip()[-4000:]}")
    return output


def digest(*parts: str, files: tuple[Path, ...] = ()) -> str:
    """Return what names one build of these parts: another version or another source gives another name."""
    return hashlib.sha256("\0".join([*parts, *(file.read_text() for file in files)]).encode()).hexdigest()[:12]


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Let no other process of this machine into a block with the same name."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
