"""Another size for a Cluster with standbys: its instances are replaced one after another, and one takes over."""

import time

from ramet.backends.interface.servers import RESIZE_UNDER_WAY
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import manifests, names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Pod
from ramet.errors import Unavailable

_WATCH_SECONDS = 20.0
_LOOK_SECONDS = 0.2


def resize(place: Place, server: Server) -> None:
    """Let the operator replace all instances; return when all are ready with the new size. May run again.

    Raises Unavailable while that takes longer.
    """
    wanted = manifests.resources_of(server.size)
    place.apply_open(server)
    deadline = time.monotonic() + _WATCH_SECONDS
    while len(done := _replaced(place, server.service_id, wanted)) != server.standbys.count + 1:
        if time.monotonic() > deadline:
            count, total = len(done), server.standbys.count + 1
            raise Unavailable(RESIZE_UNDER_WAY, f"{count} of {total} servers of {server.service_id} are resized")
        time.sleep(_LOOK_SECONDS)


def _replaced(place: Place, service_id: str, wanted: manifests.Manifest) -> list[Pod]:
    return [
        one
        for one in place.pods.of_service(service_id)
        if names.POOLER_LABEL not in one.metadata.labels and one.is_ready and one.has_resources(wanted)
    ]
