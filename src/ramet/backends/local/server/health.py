"""What is seen of a server from outside, at the cost of reading a few small files."""

from typing import Any

from ramet.backends.interface.values import Observation
from ramet.backends.local.host.own_faults import looking_at
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.wal import archive
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.backends.local.wal.segment import segment_named


def observe(paths: ServicePaths, *, is_replica: bool = False) -> Observation:
    """Look at a server that should be serving. Raises Unseen when this process cannot look."""
    with looking_at(f"the server of service {paths.service_id}"):
        return _observe(paths, is_replica)


def _observe(paths: ServicePaths, is_replica: bool) -> Observation:
    if not paths.data.is_dir():
        return Observation(False, f"The volume of service {paths.service_id} is lost.")
    if postgres.is_ready(paths):
        return (
            Observation(True, follows=_follows(paths)) if is_replica else Observation(True, facts=_archive_facts(paths))
        )
    if postgres.running(paths) is not None:
        return Observation(False, "Its server runs and does not accept connections yet.")
    return Observation(False, "Its server is not running.")


def _follows(paths: ServicePaths) -> bool:
    """Tell whether there is a WAL receiver; one that cannot connect ends at once."""
    pid = postgres.running(paths)
    roles = [title.rpartition(": ")[2] for _, title in children_of(pid)] if pid is not None else []
    return any(role.startswith("walreceiver") and not role.endswith("idle") for role in roles)


def _archive_facts(paths: ServicePaths) -> dict[str, Any]:
    """Return the newest archived segment, and how many wait to be archived."""
    status = paths.data / WAL_DIRECTORY / STATUS_DIRECTORY
    waiting = [path for path in status.glob("*.ready") if segment_named(path.stem) is not None]
    newest = archive.newest_segment(paths.archive)
    return {"newest_archived_segment": None if newest is None else newest.name, "segments_to_archive": len(waiting)}
