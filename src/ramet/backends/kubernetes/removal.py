"""How all of a service is removed, with nothing left."""

import time

from ramet.backends.interface.servers import SERVER_ENDING
from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import (
    Backup,
    Cluster,
    ConfigMap,
    Deployment,
    NetworkPolicy,
    Object,
    Pod,
    SecretObject,
    Service,
    Volume,
    VolumeSnapshot,
)
from ramet.errors import Unavailable

# The Cluster before what it would make again.
_KINDS: tuple[type[Object], ...] = (
    *(Deployment, Cluster, Backup, Service, ConfigMap),
    *(NetworkPolicy, VolumeSnapshot, Volume, SecretObject),
)
_LEFT: tuple[type[Object], ...] = (*_KINDS, Pod)
_WAIT_SECONDS = 20.0


def destroy(place: Place, service_id: str) -> None:
    """Remove all objects of a service, and wait until they are gone. Raises Unavailable while some are not."""
    for kind in _KINDS:
        for name in _names(place, kind, service_id):
            place.api.delete(kind, name)
    for name in _names(place, Pod, service_id):  # its data is removed: no clean shutdown is waited for
        place.api.delete(Pod, name, grace_seconds=0)
    deadline = time.monotonic() + _WAIT_SECONDS
    while left := [f"{kind.__name__} {name}" for kind in _LEFT for name in _names(place, kind, service_id)]:
        if time.monotonic() > deadline:
            raise Unavailable(SERVER_ENDING, f"Service {service_id} is still being removed", ", ".join(left))
        time.sleep(0.25)


def _names(place: Place, kind: type[Object], service_id: str) -> list[str]:
    own = place.api.find(kind, names.labels_of(service_id))
    of_operator = place.api.find(kind, {names.CLUSTER_LABEL: names.cluster_name(service_id)})
    return sorted({one.metadata.name for one in [*own, *of_operator]})
