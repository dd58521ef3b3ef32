"""Many services: what is asked every second is answered from the watches, and costs the API server nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace as with_values

from harness.waiting import eventually
from ramet.backends.kubernetes import reports
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.control.duties.health import Health
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.sampling import Sampling
from ramet.control.duties.sleep import FallingAsleep
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.plane import Plane, utc_now
from ramet.control.services import list_services
from ramet.ids import new_id
from ramet.model.service import Service, status_of
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.status import Status
from ramet.store import metrics, services, snapshots
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster, running_pod
from tests.backends.kubernetes.servers import report
from tests.worlds import make_world

COUNT = 500
SOME, MINUTES = 5, 3
KINDS = ("clusters", "exec", "pods", "networkpolicies", "endpointslices")


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


@contextmanager
def serving(count: int, directory: Path) -> Iterator[Many]:
    """Give a control plane with so many services."""
    with in_cluster() as (found, place):
        world = make_world(directory)
        pattern, now = world.create(), utc_now()
        plane = replace(world.plane, backend=KubernetesBackend(place))
        ids = [new_id() for _ in range(count)]
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


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Many]:
    with serving(COUNT, tmp_path) as made:
        yield made


def test_observing_very_many_services_takes_two_lists_and_two_watches(many: Many) -> None:
    health, guard = Health(many.plane), StorageGuard(many.plane)
    health.inspect()
    eventually(lambda: len(many.found.requests) >= 4)
    assert sum(many.asked().values()) == 4
    for _ in range(3):
        health.inspect()
        guard.check()
        FallingAsleep(many.plane, many.plane.clock).tend()
        assert len(list_services(many.plane, many.project_id)) == COUNT
    assert sum(many.asked().values()) == 0
    with many.plane.store.read() as tx:
        assert {status_of(one) for one in services.live_services(tx)} == {Status.READY}


def test_all_duties_run_fewer_than_three_programs_a_minute_in_each_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(SOME, tmp_path) as many:
        many.found.answer = lambda pod, command, stdin: (report(), "", 0)
        begun, seconds = utc_now(), 0
        monkeypatch.setattr(reports, "monotonic", lambda: float(seconds))
        plane = replace(many.plane, clock=lambda: begun + timedelta(seconds=seconds))
        with plane.store.write() as tx:
            for service_id in many.ids:
                lsns = ("0/2000000", "0/2000028")
                taken = Snapshot(new_id(), service_id, SnapshotKind.SCHEDULED, begun, *lsns, 1, 790, 1)
                snapshots.insert_snapshot(tx, taken)
        sampling, scheduled = Sampling(plane), ScheduledSnapshots(plane)
        for seconds in range(MINUTES * 60):
            if seconds % 60 == 0:
                scheduled.take_due()
            sampling.sample()
            maintain_servers(plane, plane.clock)
        asked = many.asked()
        programs = asked["exec"]
        print(f"programs for each service and minute: {programs / SOME / MINUTES:.2f}")
        assert SOME * MINUTES <= programs < SOME * MINUTES * 3
        assert asked["networkpolicies"] == SOME  # once in each process
        with plane.store.read() as tx:
            known = [metrics.last_sample(tx, one, plane.clock() - timedelta(minutes=1)) for one in many.ids]
        assert None not in known
