"""The replication slots of a stopped server, and the pods that read its volume."""

import pytest

from ramet.backends.interface.replication import ReplicationSlot
from ramet.backends.kubernetes import archive_manifests
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
        assert backend.replication.slots(SHARED, reads_volume=False).slots == []
        assert not ran
        slots = backend.replication.slots(SHARED)
        assert (slots.limit_bytes, slots.slots) == (None, [ReplicationSlot("orders"), ReplicationSlot("reports")])
        ((pod, command),) = ran
        assert (pod[:-10], command[0]) == ("ramet-abcdefghij-volume-", "ls")
        assert not [name for kind, name in found.objects if kind == "pods"]


def test_two_at_once_read_the_volume_of_a_stopped_server_each_in_its_own_pod() -> None:
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        backend.servers.stop(SHARED)
        readers: list[str] = []

        def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
            readers.append(pod)
            if len(readers) == 1:
                backend.replication.slots(SHARED)
            return ("orders\n", "", 0) if ("pods", pod) in found.objects else ("", "pod not found", 1)

        found.answer = answer
        assert backend.replication.slots(SHARED).slots == [ReplicationSlot("orders")]
        assert len(set(readers)) == 2


@pytest.mark.parametrize("reader_id", ["abcdefghij", "forkfork12"])
def test_a_start_removes_the_pods_that_a_killed_process_left_at_the_volume(reader_id: str) -> None:
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        backend.servers.stop(SHARED)
        left = archive_manifests.volume_reader(reader_id, "mark", SHARED.service_id, 18, place.site, "a-volume")
        found.put("pods", left)
        backend.servers.stop(SHARED)  # it waits for no reader
        backend.servers.start(SHARED)
        assert [name for kind, name in found.objects if kind == "pods"] == ["ramet-abcdefghij-1"]
