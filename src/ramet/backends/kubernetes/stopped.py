"""What the volume of a stopped server says of it: its control file, read in a pod of its own."""

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive_manifests, names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Pod
from ramet.backends.local.wal.control_file import ControlData, parsed_control_data

_CONTROL = 'LC_ALL=C TZ=UTC "/usr/lib/postgresql/$1/bin/pg_controldata" "$2"'


def read_control(place: Place, server: Server, reader_id: str) -> ControlData:
    """Return the control file of a stopped server. The pod that reads it belongs to the service `reader_id`."""
    volume, name = place.volume_of(server.service_id), names.volume_reader_name(reader_id)
    reader = archive_manifests.volume_reader(reader_id, server.pg_major, place.site, volume.metadata.name)
    try:
        place.start_pod(reader, "that reads the volume")
        directory = f"{archive_manifests.VOLUME_DIRECTORY}/pgdata"
        return parsed_control_data(
            place.api.run(name, ["sh", "-c", _CONTROL, "control", str(server.pg_major), directory])
        )
    finally:
        place.api.delete(Pod, name, grace_seconds=0)
