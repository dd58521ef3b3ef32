"""What the volume of a stopped server says of it. Each call reads it in a pod of its own."""

from collections.abc import Sequence

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive_manifests, names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Pod
from ramet.backends.local.wal.control_file import ControlData, parsed_control_data
from ramet.ids import new_id

_DATA = f"{archive_manifests.VOLUME_DIRECTORY}/pgdata"
_CONTROL = 'LC_ALL=C TZ=UTC "/usr/lib/postgresql/$1/bin/pg_controldata" "$2"'


def read_control(place: Place, server: Server, reader_id: str) -> ControlData:
    """Return the control file of a stopped server. The pod that reads it belongs to the service `reader_id`."""
    command = ["sh", "-c", _CONTROL, "control", str(server.pg_major), _DATA]
    return parsed_control_data(_run(place, server, reader_id, command))


def slot_names(place: Place, server: Server) -> list[str]:
    """Return the names of the replication slots of a stopped server."""
    return _run(place, server, server.service_id, ["ls", f"{_DATA}/pg_replslot"]).split()


def release_volume(place: Place, service_id: str) -> None:
    """Remove the pods that read the volume of a server which is to start, perhaps on another node.

    A process that was killed leaves its own.
    """
    for one in place.api.find(Pod, {names.VOLUME_LABEL: service_id}):
        place.api.delete(Pod, one.metadata.name, grace_seconds=0)


def _run(place: Place, server: Server, reader_id: str, command: Sequence[str]) -> str:
    volume = place.volume_of(server.service_id).metadata.name
    reader = archive_manifests.volume_reader(
        reader_id, new_id(), server.service_id, server.pg_major, place.site, volume
    )
    name = reader["metadata"]["name"]
    try:
        place.start_pod(reader, "that reads the volume")
        return place.api.run(name, command)
    finally:
        place.api.delete(Pod, name, grace_seconds=0)
