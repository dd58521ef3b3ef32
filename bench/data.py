"""The data that benches fork, and the load on it: pgbench's tables, over a service's own endpoint."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.api import connect

_MB_PER_SCALE = 15
_WARM_SECONDS = 2.0


def scale_of(size_mb: int) -> int:
    """Return pgbench's scale for a database of about so many megabytes."""
    return max(1, size_mb // _MB_PER_SCALE)


def fill(programs: Path, service: Mapping[str, Any], size_mb: int) -> None:
    """Make pgbench's tables in a service, and flush them. Raises RuntimeError with what pgbench said."""
    run_pgbench(programs, service, "-i", "-I", "dtgvp", "-q", "-s", str(scale_of(size_mb)))
    with connect(service) as connection:
        connection.execute("CHECKPOINT")


def run_pgbench(programs: Path, service: Mapping[str, Any], *options: str, **variables: str) -> str:
    """Run pgbench in a service to its end, and return what it printed. Raises RuntimeError with what it said."""
    command = _pgbench(programs, service, *options)
    environment = {**_environment(service), **variables}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"pgbench {' '.join(options)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


@contextlib.contextmanager
def load(
    programs: Path, service: Mapping[str, Any], log_prefix: Path | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Keep two clients writing; with `log_prefix`, each transaction is logged to a file of that name."""
    options = ["-c", "2", "-j", "1", "-T", "3600", "-n", "-M", "prepared"]
    if log_prefix is not None:
        options += ["-l", f"--log-prefix={log_prefix}"]
    command = _pgbench(programs, service, *options)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=_environment(service), stdout=quiet, stderr=quiet)
    try:
        time.sleep(_WARM_SECONDS)
        if process.poll() is not None:
            raise RuntimeError(f"pgbench ended with {process.returncode}")
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _pgbench(programs: Path, service: Mapping[str, Any], *options: str) -> list[str]:
    endpoint = service["endpoint"]
    where = ["-h", endpoint["host"], "-p", str(endpoint["port"]), "-U", "tsdbadmin"]
    return [str(programs / "pgbench"), *where, *options, "tsdb"]


def _environment(service: Mapping[str, Any]) -> dict[str, str]:
    return {**os.environ, "PGPASSWORD": service["initial_password"], "PGSSLMODE": "require"}
