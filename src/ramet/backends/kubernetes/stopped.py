"""What the volume of a stopped server says of it, read in a pod of its own."""

from collections.abc import Sequence

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive_manifests, names, waking
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.manifests import Manifest
from ramet.backends.kubernetes.resources import Cluster, Pod
from ramet.backends.local.wal.control_file import ControlData, parsed_control_data
from ramet.backends.local.wal.segment import Segment, end_of_records, segment_before, shown_lsn
from ramet.errors import Error, Unseen
from ramet.ids import new_id

_DATA = f"{archive_manifests.VOLUME_DIRECTORY}/pgdata"
_CONTROL = 'LC_ALL=C TZ=UTC "/usr/lib/postgresql/$1/bin/pg_controldata" "$2"'
_UNKNOWN = "unknown"
# The mark of the pod that reads for the archive.
_ARCHIVE = "archive"
_RUN_SECONDS = 5.0


def read_control(place: Place, server: Server, reader_id: str) -> ControlData:
    """Return the control file of a stopped server. The pod that reads it belongs to the service `reader_id`."""
    return parsed_control_data(_run(place, server, reader_id, _control_command(server)))


def last_segment_of(control: ControlData) -> Segment:
    """Return the last segment with WAL of a server that was stopped cleanly.

    At its end PostgreSQL begins another segment for its last checkpoint alone, which is not archived.
    """
    return segment_before(control.timeline, shown_lsn(end_of_records(control.checkpoint_lsn)))


def last_segment(place: Place, server: Server) -> str | None:
    """Return the name of the last segment with WAL of a stopped server; None if it was not stopped cleanly.

    None, too, of a server that is to run, and until a pod has read that, once after each stop: this waits for no pod,
    and keeps one that has failed, or in which nothing can be run yet, for the next call. Of a server that an earlier
    release has stopped only the segment is known in which it was when it was asked to stop.
    """
    cluster = place.cluster_of(server.service_id)
    if cluster is None or not cluster.is_asleep:
        return None
    noted = cluster.metadata.annotations.get(names.LAST_SEGMENT_ANNOTATION)
    if noted is None:
        position = waking.last_position_of(place, server)
        return segment_before(position["timeline"], position["end_lsn"]).name
    if noted == waking.UNREAD:
        control = _control_in_time(place, server)
        if control is None:
            return None
        noted = last_segment_of(control).name if control.is_clean else _UNKNOWN
        change = {"metadata": {"annotations": {names.LAST_SEGMENT_ANNOTATION: noted}}}
        place.api.patch(Cluster, names.cluster_name(server.service_id), change)
        place.api.delete(Pod, names.volume_reader_name(server.service_id, _ARCHIVE), grace_seconds=0)
    return None if noted == _UNKNOWN else noted


def _control_in_time(place: Place, server: Server) -> ControlData | None:
    """Return the control file; None where the pod does not tell it yet, or the server was started just now."""
    reader = _reader(place, server, server.service_id, _ARCHIVE)
    name, starting = reader["metadata"]["name"], place.begin_pod(reader, 0.0)
    cluster = place.cluster_of(server.service_id)
    if cluster is None or not cluster.is_asleep:
        place.api.delete(Pod, name, grace_seconds=0)
        return None
    if starting is not None:
        return None
    try:
        said = place.api.run(name, _control_command(server), timeout_seconds=_RUN_SECONDS)
    except Error as error:
        # As of a container that has just started, or a node that is gone: that says nothing of the archive.
        if isinstance(error, Unseen) or error.code == "KUBERNETES_NOT_FOUND":
            return None
        raise
    return parsed_control_data(said)


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
    reader = _reader(place, server, reader_id, new_id())
    name = reader["metadata"]["name"]
    try:
        place.start_pod(reader, "that reads the volume")
        return place.api.run(name, command)
    finally:
        place.api.delete(Pod, name, grace_seconds=0)


def _reader(place: Place, server: Server, reader_id: str, mark: str) -> Manifest:
    volume = place.volume_of(server.service_id).metadata.name
    return archive_manifests.volume_reader(reader_id, mark, server.service_id, server.pg_major, place.site, volume)


def _control_command(server: Server) -> Sequence[str]:
    return ["sh", "-c", _CONTROL, "control", str(server.pg_major), _DATA]
