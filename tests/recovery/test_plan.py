"""What can be recovered on a host is known before anything is changed there."""

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from ramet.archive.object_store import Bucket
from ramet.backends.memory.host import MemoryHost
from ramet.control import replica_sets, services
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.errors import Failed, Invalid
from ramet.model.gaps import Gap
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.recovery.catalogue import Secrets
from ramet.recovery.contents import Contents, Holding, read_contents
from ramet.recovery.plan import make_plan
from ramet.recovery.rows import submit_recoveries
from ramet.store import services as rows
from tests.recovery.archives import TAKEN_AT, archive_base, publish
from tests.worlds import World, make_world


@pytest.fixture
def new(tmp_path: Path) -> World:
    """A new machine."""
    (tmp_path / "new").mkdir()
    return make_world(tmp_path / "new")


@pytest.fixture
def contents(world: World, bucket: Bucket, tmp_path: Path) -> Contents:
    """An archive with the service `shop`, which has a pooler and a read replica set, and `other` without a base."""
    shop = world.create("shop")
    replica_sets.create_set(world.plane, world.project.id, shop.id, ReplicaSetRequest("reports", 2, 500, 2))
    world.worker.run_until_idle()
    services.resize_service(world.plane, world.project.id, shop.id, "8000", "32")
    world.worker.run_until_idle()
    world.create("other")
    archive_base(bucket, shop.id, tmp_path)
    publish(world, bucket, tmp_path)
    return read_contents(bucket)


def shop_of(contents: Contents) -> Holding:
    return contents.choose(["shop"])[0]


def test_a_service_comes_back_as_it_was(new: World, contents: Contents) -> None:
    plan = make_plan(new.plane, [shop_of(contents)], None, new_ports=False)
    assert plan.entries == (shop_of(contents).entry,)
    assert (plan.refused, plan.differences) == ((), ())


def test_a_service_without_a_base_backup_is_named_and_the_others_are_recovered(new: World, contents: Contents) -> None:
    plan = make_plan(new.plane, contents.holdings, None, new_ports=False)
    assert [entry.name for entry in plan.entries] == ["shop"]
    (refused,) = plan.refused
    assert str(refused.error) == "The archive has no base backup of other: it was not archived off the host"


def test_a_time_that_the_archive_does_not_have_is_refused(new: World, contents: Contents) -> None:
    shop = shop_of(contents)
    assert shop.newest is not None
    for target in (TAKEN_AT - timedelta(seconds=1), shop.newest + timedelta(seconds=1)):
        (refused,) = make_plan(new.plane, [shop], target, new_ports=False).refused
        assert refused.error.code == "OUTSIDE_RESTORE_WINDOW"
    assert make_plan(new.plane, [shop], TAKEN_AT, new_ports=False).refused == ()


def test_a_time_of_lost_wal_is_refused(new: World, contents: Contents) -> None:
    shop = shop_of(contents)
    gap = Gap(TAKEN_AT - timedelta(seconds=1), TAKEN_AT + timedelta(seconds=1), "WAL segment 3 was lost")
    holed = dataclasses.replace(shop, entry=replace(shop.entry, archive_gaps=(gap,)))
    (refused,) = make_plan(new.plane, [holed], TAKEN_AT, new_ports=False).refused
    assert "WAL segment 3 was lost" in str(refused.error)


def test_a_missing_version_is_named_with_its_remedy(
    new: World, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(_host: MemoryHost, _type: ServiceType, pg_major: int) -> None:
        raise Failed("POSTGRESQL_MISSING", f"PostgreSQL {pg_major} is missing", "Install it.")

    monkeypatch.setattr(MemoryHost, "check_service_type", lacks)
    plan = make_plan(new.plane, [shop_of(contents)], None, new_ports=False)
    assert [str(one.error) for one in plan.refused] == ["PostgreSQL 18 is missing: Install it."]


def test_ports_in_use_are_named_or_replaced(new: World, contents: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop_of(contents)
    node_port = shop.entry.replica_sets[0].nodes[1][1]
    taken = {shop.entry.port, node_port}
    monkeypatch.setattr(MemoryHost, "port_is_free", lambda _host, port: port not in taken)
    with pytest.raises(Invalid, match=rf"in use on this host: {shop.entry.port} \(shop\)") as refused:
        make_plan(new.plane, [shop], None, new_ports=False)
    assert f"{node_port} (read replica set reports of shop)" in str(refused.value)

    plan = make_plan(new.plane, [shop], None, new_ports=True)
    (entry,) = plan.entries
    assert entry.port not in taken
    before, after = shop.entry.replica_sets[0], entry.replica_sets[0]
    assert (after.port, after.nodes[0]) == (before.port, before.nodes[0])
    assert after.nodes[1][1] not in taken
    assert len({entry.port, after.port, *(port for _, port in after.nodes)}) == 4
    assert len(plan.differences) == 2


def test_ports_of_services_of_this_host_are_in_use(new: World, contents: Contents) -> None:
    shop = shop_of(contents)
    there = new.create("there")
    with new.store.write() as tx:
        rows.update_service(tx, there.id, port=shop.entry.port, paused=True)  # nothing listens at its port
    with pytest.raises(Invalid, match=rf"{shop.entry.port} \(shop\)"):
        make_plan(new.plane, [shop], None, new_ports=False)
    (entry,) = make_plan(new.plane, [shop], None, new_ports=True).entries
    assert entry.port != shop.entry.port


def test_two_services_of_the_archive_with_one_port_get_two(new: World, contents: Contents) -> None:
    shop = shop_of(contents)
    other = dataclasses.replace(shop, entry=replace(shop.entry, id="other12345", name="other", replica_sets=()))
    with pytest.raises(Invalid, match=rf"{shop.entry.port} \(other\)"):
        make_plan(new.plane, [shop, other], None, new_ports=False)
    first, second = make_plan(new.plane, [shop, other], None, new_ports=True).entries
    assert (first, second.port != shop.entry.port) == (shop.entry, True)


def test_a_recovery_that_is_tried_again_gets_other_ports_in_place_of_taken_ones(
    new: World, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of(contents)
    monkeypatch.setattr(MemoryHost, "port_is_free", lambda _host, port: port != shop.entry.port)

    def tried() -> int:
        plan = make_plan(new.plane, [shop], None, new_ports=True)
        submit_recoveries(new.plane, contents.projects, [], plan.entries, Secrets(), None)
        new.worker.run_until_idle()  # this archive has no base backup: it fails
        return services.get_service(new.plane, shop.entry.project_id, shop.entry.id).port

    new.backend.archive.location = "memory://archive"
    assert [tried() == shop.entry.port for _ in range(2)] == [False, False]
    with pytest.raises(Invalid, match="are in use on this host"):
        make_plan(new.plane, [shop], None, new_ports=False)


def test_a_smaller_machine_gives_what_it_has(new: World, contents: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryHost, "size", lambda _host: Size(4000, 16))
    plan = make_plan(new.plane, [shop_of(contents)], None, new_ports=False)
    assert [(entry.cpu_millis, entry.memory_gbs) for entry in plan.entries] == [(4000, 16)]
    assert plan.differences == ("shop: this host is smaller, so it gets 4000 millis of CPU and 16 GB",)


def test_read_replicas_of_a_paused_service_are_not_made_again(new: World, contents: Contents) -> None:
    holding = shop_of(contents)
    paused = Holding(**{**vars(holding), "entry": replace(holding.entry, paused=True)})
    plan = make_plan(new.plane, [paused], None, new_ports=False)
    assert [entry.replica_sets for entry in plan.entries] == [()]
    assert plan.differences == ("shop: its read replica set reports is not made again: the service is paused",)
