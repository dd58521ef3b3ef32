"""The health of a server, determined by reading a few small files."""

from ramet.backends.interface.values import Observation
from ramet.backends.local.host.own_faults import looking_at
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import children_of


def observe(paths: ServicePaths, *, is_replica: bool = False) -> Observation:
    """Check a server that should be running. Raises Unseen when its state cannot be read."""
    with looking_at(f"the server of service {paths.service_id}"):
        return _observe(paths, is_replica)


def _observe(paths: ServicePaths, is_replica: bool) -> Observation:
    if not paths.data.is_dir():
        return Observation(False, f"The volume of service {paths.service_id} is lost.")
    if postgres.is_ready(paths):
        return Observation(True, follows=not is_replica or _follows(paths))
    if postgres.running(paths) is not None:
        return Observation(False, "Its server is running but does not accept connections yet.")
    return Observation(False, "Its server is not running.")


def _follows(paths: ServicePaths) -> bool:
    """Tell whether there is a WAL receiver; one that cannot connect exits at once."""
    pid = postgres.running(paths)
    roles = [title.rpartition(": ")[2] for _, title in children_of(pid)] if pid is not None else []
    return any(role.startswith("walreceiver") and not role.endswith("idle") for role in roles)
