"""Check all data of a server for corruption, and check whether archiving keeps up."""

import time
from functools import partial

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.amcheck import read_all
from ramet.backends.local.server.jobs import Jobs
from ramet.backends.local.sql.tenant_code import Allowance
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.backends.local.wal.segment import segment_named

_LATE_SECONDS = 120.0
_MANY_SEGMENTS = 64


def check_data(jobs: Jobs, paths: ServicePaths, timeout_seconds: float) -> str | None:
    """Check every table and index with amcheck; None while that is in progress, then the corruption, or "".

    Installs the extension amcheck, so it is for temporary servers only.
    """
    return jobs.run(paths, "amcheck", partial(read_all, paths, Allowance()), timeout_seconds)


def archive_delay(paths: ServicePaths) -> str | None:
    """Return a sentence that says how far archiving is behind; None when it keeps up."""
    waiting = []
    for path in (paths.data / WAL_DIRECTORY / STATUS_DIRECTORY).glob("*.ready"):
        if segment_named(path.stem) is not None:
            try:
                waiting.append(path.stat().st_mtime)
            except FileNotFoundError:
                continue
    late = bool(waiting) and time.time() - min(waiting) > _LATE_SECONDS
    if not late and len(waiting) < _MANY_SEGMENTS:
        return None
    minutes = int((time.time() - min(waiting)) // 60)
    return f"Archiving is behind: {len(waiting)} WAL segments are waiting, the oldest for {minutes} minutes."
