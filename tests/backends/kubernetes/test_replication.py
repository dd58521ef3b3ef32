"""The replication slots of a stopped server."""

from ramet.backends.interface.replication import ReplicationSlot
from ramet.backends.kubernetes.backend import KubernetesBackend
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.servers import SHARED


def test_the_slots_of_a_stopped_server_are_those_in_its_volume_but_for_the_operators() -> None:
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        backend.servers.stop(SHARED)
        ran: list[tuple[str, list[str]]] = []

        def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
            ran.append((pod, command))
            return "_cnpg_ramet_abcdefghij_2\norders\nreports\n", "", 0

        found.answer = answer
        slots = backend.replication.slots(SHARED)
        assert (slots.limit_bytes, slots.slots) == (None, [ReplicationSlot("orders"), ReplicationSlot("reports")])
        assert [(pod, command[0]) for pod, command in ran] == [("ramet-abcdefghij-volume", "ls")]
        assert ("pods", "ramet-abcdefghij-wal") not in found.objects
