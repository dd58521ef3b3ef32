"""Services of a world without servers, lost and recovered from an archive in memory."""

from msgspec.structs import replace

from ramet.control.services import get_service
from ramet.procedures.servers import server_of
from ramet.recovery.catalogue import Secrets, entry_of
from ramet.recovery.rows import submit_recoveries
from ramet.store.tables import service, snapshot
from tests.worlds import World


def archive(world: World, service_id: str) -> None:
    """Put all that a service holds into the archive."""
    world.backend.archive.location = "memory://archive"
    server = server_of(get_service(world.plane, world.project.id, service_id))
    world.backend.archive.maintain(server, paused=False, timeout_seconds=1.0)


def lose_and_recover(world: World, service_id: str, *, paused: bool = False) -> str:
    """Archive a service, lose it with its rows in the store, and submit its recovery."""
    world.backend.commit(service_id, "row")
    archive(world, service_id)
    entry = entry_of(get_service(world.plane, world.project.id, service_id), [])
    world.worker.run_until_idle()
    world.backend.servers.destroy(service_id)
    with world.store.write() as tx:
        tx.execute(snapshot.delete())
        tx.execute(service.delete())
    submit_recoveries(world.plane, [], [], (replace(entry, paused=paused),), Secrets(), None)
    return service_id
