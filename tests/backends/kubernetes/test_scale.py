"""Many services: what is asked every second is answered from the watches, and costs the API server nothing."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from msgspec.structs import replace as with_values

from harness.waiting import eventually
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.control.duties.health import Health
from ramet.control.duties.sleep import FallingAsleep
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.plane import Plane, utc_now
from ramet.control.services import list_services
from ramet.ids import new_id
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.store import services
from tests.backends.kubernetes.api_server import FakeCluster, in_cluster, running_pod
from tests.worlds import make_world

COUNT = 500
KINDS = ("clusters", "exec", "pods")


@dataclass
class Many:
    """A control plane with very many services, whose servers all run."""

    found: FakeCluster
    plane: Plane
    project_id: str
    ids: list[str]

    def asked(self) -> Counter[str]:
        """Return how often the API server was asked, by kind, since the last call."""
        taken = list(self.found.requests)
        del self.found.requests[: len(taken)]
        return Counter(next(one for one in KINDS if f"/{one}" in path) for _, path in taken)


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Many]:
    with in_cluster() as (found, place):
        world = make_world(tmp_path)
        pattern, now = world.create(), utc_now()
        plane = replace(world.plane, backend=KubernetesBackend(place))
        ids = [new_id() for _ in range(COUNT)]
        with world.store.write() as tx:
            for n, service_id in enumerate(ids):
                made: Service = with_values(pattern, id=service_id, port=21000 + n, name=f"s{n}")
                services.insert_service(tx, made)
                services.update_service(tx, service_id, ready_at=now)
            services.update_service(tx, pattern.id, deleted_at=now)
        for service_id in ids:
            labels = {"ramet/service": service_id}
            name = f"ramet-{service_id}"
            found.objects["clusters", name] = {"metadata": {"name": name, "labels": labels}}
            found.objects["pods", f"{name}-1"] = {
                "metadata": {"name": f"{name}-1", "labels": labels},
                "status": running_pod(),
            }
        yield Many(found, plane, world.project.id, ids)


def test_observing_very_many_services_takes_two_lists_and_two_watches(many: Many) -> None:
    health, guard = Health(many.plane), StorageGuard(many.plane)
    health.inspect()
    eventually(lambda: len(many.found.requests) >= 4)
    assert sum(many.asked().values()) == 4
    for _ in range(3):
        health.inspect()
        guard.check()
        FallingAsleep(many.plane).tend()
        assert len(list_services(many.plane, many.project_id)) == COUNT
    assert sum(many.asked().values()) == 0
    with many.plane.store.read() as tx:
        assert {status_of(one) for one in services.all_live_services(tx)} == {Status.READY}
