"""The comparison of host and store, over imaginary hosts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ramet.backends.interface.inventory import HostResource, Kind
from ramet.control.leftovers import discard, find_leftovers
from ramet.control.plane import utc_now
from ramet.store import services, snapshots
from ramet.store.operations import submit
from tests.worlds import World, make_world


@dataclass
class Host:
    """Holds what a test says, and what the services of a world have."""

    world: World
    extra: list[HostResource] = field(default_factory=list)
    discarded: list[HostResource] = field(default_factory=list)

    def resources(self) -> Sequence[HostResource]:
        found = list(self.extra)
        for service_id, volume in self.world.backend.volumes.items():
            found.append(HostResource(Kind.DIRECTORY, service_id, service_id))
            found += [HostResource(Kind.SNAPSHOT, service_id, snapshot_id) for snapshot_id in volume.snapshots]
        return found

    def discard(self, resource: HostResource) -> None:
        self.discarded.append(resource)
        self.extra.remove(resource)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(make_world(tmp_path))


def sentences(host: Host) -> list[str]:
    return [finding.sentence for finding in find_leftovers(host.world.store, host)]


def test_nothing_is_left_over_of_services_that_live(host: Host) -> None:
    host.world.fork(host.world.create())
    assert sentences(host) == []


@pytest.mark.parametrize("kind", [Kind.DIRECTORY, Kind.SOCKETS, Kind.CGROUP, Kind.PROCESS])
def test_what_no_row_owns_is_left_over_until_it_is_discarded(host: Host, kind: Kind) -> None:
    stranger = HostResource(kind, "a000000000", "a000000000")
    host.extra.append(stranger)
    found = find_leftovers(host.world.store, host)
    assert [finding.resource for finding in found] == [stranger]
    assert discard(host.world.store, host, found) == found
    assert host.discarded == [stranger]
    assert sentences(host) == []


def test_what_an_operation_under_way_may_need_is_not_left_over(host: Host) -> None:
    service = host.world.create()
    host.extra.append(HostResource(Kind.SNAPSHOT, service.id, "b000000000"))
    host.extra.append(HostResource(Kind.UNFINISHED, service.id, "data.unfinished"))
    assert len(sentences(host)) == 2
    with host.world.store.write() as tx:
        submit(tx, "snapshot", "take", service.id, {})
    assert sentences(host) == []


def test_the_throw_away_server_of_a_drill_is_not_left_over(host: Host) -> None:
    service = host.world.create()
    host.extra.append(HostResource(Kind.DIRECTORY, "c000000000", "c000000000"))
    with host.world.store.write() as tx:
        submit(tx, "drill", "choose", service.id, {"drill_id": "c000000000"})
    assert sentences(host) == []


def test_what_has_got_an_owner_since_the_inspection_is_not_discarded(host: Host) -> None:
    service = host.world.create()
    host.extra.append(HostResource(Kind.UNFINISHED, service.id, "data.unfinished"))
    found = find_leftovers(host.world.store, host)
    with host.world.store.write() as tx:
        submit(tx, "snapshot", "take", service.id, {})
    assert discard(host.world.store, host, found) == []
    assert host.discarded == []


def test_a_server_of_a_paused_service_is_left_over(host: Host) -> None:
    service = host.world.create()
    host.extra.append(HostResource(Kind.PROCESS, service.id, "12"))
    assert sentences(host) == []
    with host.world.store.write() as tx:
        services.update_service(tx, service.id, paused=True)
    assert sentences(host) == [f"The process 12 of {service.id} is left over: its service is paused."]


def test_a_mount_and_a_pooler_without_a_service_are_left_over(host: Host) -> None:
    service = host.world.create()
    host.extra += [HostResource(Kind.MOUNT, "", "/srv/x"), HostResource(Kind.POOLER, service.id, service.id)]
    assert len(sentences(host)) == 2


def test_a_lost_volume_and_a_lost_snapshot_are_said(host: Host) -> None:
    shop, fork = host.world.create(), host.world.create("other")
    (snapshot_id,) = host.world.backend.volumes[shop.id].snapshots
    del host.world.backend.volumes[shop.id].snapshots[snapshot_id]
    del host.world.backend.volumes[fork.id]
    assert sentences(host) == [
        f"The volume of service {fork.id} is lost.",
        f"Snapshot {snapshot_id} of service {shop.id} is lost.",
    ]


def test_rows_that_contradict_each_other_are_said(host: Host) -> None:
    service = host.world.create()
    with host.world.store.write() as tx:
        operation_id = submit(tx, "snapshot", "take", service.id, {"snapshot_id": "c000000000", "kind": "MANUAL"})
    host.world.worker.run_until_idle()
    with host.world.store.write() as tx:
        services.add_hold(tx, service.id, operation_id)
        services.update_service(tx, service.id, operation_id=operation_id)
    assert sentences(host) == [
        f"Operation {operation_id} is over and still holds service {service.id}.",
        f"Service {service.id} waits for operation {operation_id}, which is over.",
    ]
    with host.world.store.write() as tx:
        services.drop_holds(tx, operation_id)
        services.update_service(tx, service.id, operation_id=None, deleted_at=utc_now())
        count = len(snapshots.list_snapshots(tx, service.id))
    assert len([one for one in sentences(host) if "which is gone" in one]) == count
