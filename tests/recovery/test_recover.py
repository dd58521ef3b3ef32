"""The rows of a catalogue on a new machine: clients continue, and what was there stays."""

from dataclasses import replace as with_fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ramet.control import replica_sets, services
from ramet.control.duties.archive import OffHostArchive, discard_old_archives
from ramet.control.labels import set_labels
from ramet.control.life_spans import extend_service
from ramet.control.plane import utc_now
from ramet.control.protection import set_protection
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.sleep import set_sleep
from ramet.errors import Failed, Invalid
from ramet.followers.observation import Observing
from ramet.followers.verbs import FollowRequest, follow_service, promote_service
from ramet.model.fork import ForkStrategy
from ramet.model.gaps import Gap
from ramet.model.life_span import LifeTerms
from ramet.model.passwords import Secret
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339
from ramet.model.upstream import FollowMethod
from ramet.operations.procedure import Outcome, Procedure, Work
from ramet.operations.worker import Worker
from ramet.recovery.collect import Content, collect
from ramet.recovery.contents import Holding
from ramet.recovery.plan import make_plan
from ramet.recovery.rows import submit_recoveries
from ramet.recovery.session import progress_of
from ramet.store import sessions
from ramet.store.services import deleted_in_archive, update_service
from tests import procedure_laws as laws
from tests.recovery.losses import archive
from tests.worlds import World, fork_service, make_world

REQUEST = CreateRequest("by key")


@pytest.fixture
def lost(world: World, secrets: Path) -> Content:
    """What a catalogue says of a service with replicas, and of one that was created with an idempotency key."""
    shop = world.create("shop")
    replica_sets.create_set(world.plane, world.project.id, shop.id, ReplicaSetRequest("reports", 2, 500, 2))
    services.create_service(world.plane, world.project.id, REQUEST, "the key")
    world.worker.run_until_idle()
    for service in services.list_services(world.plane, world.project.id):
        world.backend.commit(service.id, service.name)
        archive(world, service.id)
    with world.store.write() as tx:
        ends_at = utc_now() + timedelta(hours=1)
        sessions.insert_session(tx, "digest", world.key.public_key, ends_at, world.key.secret_digest)
    return collect(world.store, secrets, utc_now())


@pytest.fixture
def new(world: World, tmp_path: Path) -> World:
    """A new machine with the same archive."""
    (tmp_path / "new").mkdir()
    made = make_world(tmp_path / "new")
    made.backend.archive.location = "memory://archive"
    made.backend.archive.bases, made.backend.archive.rows = world.backend.archive.bases, world.backend.archive.rows
    return made


def recover(new: World, lost: Content) -> list[str]:
    ids = submit_recoveries(new.plane, list(lost.projects), list(lost.keys), lost.services, lost.secrets, None)
    new.worker.run_until_idle()
    return ids


def test_services_and_their_replicas_come_back_with_their_rows(world: World, new: World, lost: Content) -> None:
    ids = recover(new, lost)
    found = services.list_services(new.plane, world.project.id)
    before = services.list_services(world.plane, world.project.id)
    assert [status_of(one) for one in found] == [Status.READY, Status.READY]
    same = ("id", "name", "port", "host", "pg_major", "created_at", "verifier", "size", "environment")
    assert [[getattr(one, name) for name in same] for one in found] == [
        [getattr(one, name) for name in same] for one in before
    ]
    assert [(one.id, one.port, one.nodes) for one in found[0].replica_sets] == [
        (one.id, one.port, one.nodes) for one in before[0].replica_sets
    ]
    assert all(one.ready_at is not None and one.down_reason is None for one in found[0].replica_sets)
    assert [new.backend.values(one.id) for one in found] == [["shop"], ["by key"]]
    assert all(one.is_over and not one.detail for one in progress_of(new.store, ids))


def test_the_times_between_the_end_of_the_archive_and_the_recovery_are_a_gap(
    world: World, new: World, lost: Content
) -> None:
    known = Gap(utc_now() - timedelta(days=2), utc_now() - timedelta(days=1), "WAL segment 3 was lost")
    recover(new, with_fields(lost, services=tuple(replace(one, archive_gaps=(known,)) for one in lost.services)))
    for service in services.list_services(new.plane, world.project.id):
        last = new.backend.volumes[service.id].rows[-1].committed_at
        before, gap = service.archive_gaps
        just_before = last - timedelta(microseconds=1)  # the archive does not say what else was committed at `last`
        assert (before, gap.begins_at, gap.ends_at) == (known, just_before, service.ready_at)
        with new.store.write() as tx:  # as soon as the archive has been looked through
            update_service(tx, service.id, archive_from=known.begins_at, archived_until=utc_now())
        target = rfc3339(gap.begins_at + timedelta(microseconds=1))
        with pytest.raises(Invalid, match="in a gap of the restore window"):
            fork_service(new.plane, world.project.id, service.id, ForkRequest(ForkStrategy.PITR, target_time=target))


@pytest.mark.parametrize("has_later_commit", [True, False])
def test_a_recovery_to_a_time_that_the_archive_does_not_reach_says_where_it_ends(
    world: World, new: World, secrets: Path, has_later_commit: bool
) -> None:
    shop = world.create("shop")
    archive(world, shop.id)
    world.backend.commit(shop.id, "archived")
    last = world.backend.volumes[shop.id].rows[-1].committed_at
    target = utc_now()
    if has_later_commit:
        world.backend.commit(shop.id, "later")
    archive(world, shop.id)
    lost = collect(world.store, secrets, utc_now())
    ids = submit_recoveries(new.plane, list(lost.projects), list(lost.keys), lost.services, lost.secrets, target)
    new.worker.run_until_idle()
    (gap,) = services.get_service(new.plane, world.project.id, shop.id).archive_gaps
    (ended,) = progress_of(new.store, ids)
    if has_later_commit:
        assert (gap.begins_at, ended.unread) == (target, "")
    else:
        assert gap.begins_at == last - timedelta(microseconds=1)
        assert f"has no commit after {rfc3339(last)}" in ended.unread
    assert ended.status == "READY"


def test_keys_sessions_and_repeated_requests_continue(world: World, new: World, lost: Content) -> None:
    recover(new, lost)
    assert new.projects.authenticate(world.key.public_key, world.secret).project_id == world.project.id
    with new.store.read() as tx:
        assert sessions.get_session(tx, "digest", utc_now()) is not None
        assert [one.secret_digest for one in sessions.list_sessions(tx, utc_now())] == [world.key.secret_digest]
    again = services.create_service(new.plane, world.project.id, REQUEST, "the key")
    first = services.create_service(world.plane, world.project.id, REQUEST, "the key")
    assert again.service.id == first.service.id
    assert again.initial_password == first.initial_password
    assert len(services.list_services(new.plane, world.project.id)) == 2


def test_life_spans_sleep_labels_protection_and_the_limits_of_the_project_come_back(
    world: World, new: World, secrets: Path
) -> None:
    shop, project_id = world.create("shop"), world.project.id
    limits = world.projects.change_limits(project_id, {"fork_ttl_seconds": 3600, "max_services": 9, "max_forks": 7})
    fork = world.fork(shop)
    set_protection(world.plane, project_id, shop.id, protected=True)
    set_labels(world.plane, project_id, shop.id, {"team": "a", "pr": "42"})
    extend_service(world.plane, project_id, fork.id, LifeTerms(ttl_seconds=7200, idle_ttl_seconds=600))
    set_sleep(world.plane, project_id, fork.id, 900)
    world.worker.run_until_idle()
    for service in services.list_services(world.plane, project_id):
        archive(world, service.id)
    recover(new, collect(world.store, secrets, utc_now()))
    before, found = ({one.name: one for one in services.list_services(each.plane, project_id)} for each in (world, new))
    assert (found["shop"].protected, found["shop"].labels) == (True, {"team": "a", "pr": "42"})
    slept, sleeps = before[fork.name], found[fork.name]
    assert (sleeps.sleep_after_seconds, sleeps.server_port, status_of(sleeps)) == (900, slept.server_port, Status.READY)
    granted, came_back = (made[fork.name].life_span for made in (before, found))
    assert granted is not None
    assert came_back == granted.as_granted
    assert came_back.expires_at is not None
    assert new.projects.get_project(project_id).limits == limits


def test_a_recovery_that_runs_again_makes_nothing_twice(world: World, new: World, lost: Content) -> None:
    recover(new, lost)
    services.rename_service(new.plane, world.project.id, lost.services[0].id, "renamed")
    recover(new, lost)
    assert [one.name for one in services.list_services(new.plane, world.project.id)] == ["renamed", "by key"]
    assert len(new.projects.list_keys(world.project.id)) == 1


@pytest.mark.parametrize("has_less", [False, True])
def test_a_service_whose_recovery_failed_is_tried_again(
    world: World, new: World, lost: Content, has_less: bool
) -> None:
    shop = lost.services[0]
    new.backend.archive.fault = Failed("ARCHIVE_DAMAGED", "The archive is damaged")
    without_sets = replace(shop, replica_sets=(), sleep_after_seconds=None) if has_less else shop
    recover(new, Content(lost.projects, lost.keys, (without_sets, *lost.services[1:]), (), lost.secrets))
    (failed, _) = progress_of(new.store, [one.id for one in lost.services])
    assert (failed.status, failed.detail) == ("UNSTABLE", "The archive is damaged")
    assert new.leftovers() == []

    new.backend.archive.fault = None
    moved = replace(shop, port=shop.port + 50)
    recover(new, Content(lost.projects, lost.keys, (moved, *lost.services[1:]), (), lost.secrets))
    found = services.get_service(new.plane, world.project.id, shop.id)
    assert (status_of(found), found.port) == (Status.READY, shop.port + 50)
    assert [one.ready_at is not None for one in found.replica_sets] == [True]


@pytest.mark.parametrize("has_target", [False, True])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_service_that_was_recovered_to_another_time_is_refused(
    world: World, new: World, lost: Content, has_target: bool, is_over: bool
) -> None:
    now = utc_now()
    target, other = (now, None) if has_target else (None, now)
    entries = lost.services[:1]
    ids = submit_recoveries(new.plane, list(lost.projects), list(lost.keys), entries, lost.secrets, target)
    if is_over:
        new.worker.run_until_idle()
    held = [Holding(entries[0], "demo", now, now, 1, 1, 1)]
    assert make_plan(new.plane, held, target, new_ports=False).entries == entries
    for wanted in (other, now - timedelta(minutes=1)):
        plan = make_plan(new.plane, held, wanted, new_ports=False)
        assert [one.error.code for one in plan.refused] == ["RECOVERED_TO_ANOTHER_TIME"]
        assert ("which goes on when Ramet runs" in plan.refused[0].error.message) is not is_over
        assert "Do not delete the service here" in plan.refused[0].error.details
        assert plan.entries == ()
    assert [one.target for one in progress_of(new.store, ids)] == [target]


def test_a_recovery_that_failed_is_tried_again_to_another_time(world: World, new: World, lost: Content) -> None:
    new.backend.archive.fault = Failed("ARCHIVE_DAMAGED", "The archive is damaged")
    ids = recover(new, lost)
    new.backend.archive.fault = None
    target = utc_now()
    held = [Holding(one, "demo", target, target, 1, 1, 1) for one in lost.services[:1]]
    plan = make_plan(new.plane, held, target, new_ports=False)
    submit_recoveries(new.plane, list(lost.projects), list(lost.keys), plan.entries, lost.secrets, target)
    new.worker.run_until_idle()
    (found,) = progress_of(new.store, ids[:1])
    assert (found.status, found.target) == ("READY", target)


def test_a_service_that_was_made_here_is_not_recovered_to_a_time(world: World, secrets: Path) -> None:
    world.create("shop")
    (entry,) = collect(world.store, secrets, utc_now()).services
    held = [Holding(entry, "demo", utc_now(), utc_now(), 1, 1, 1)]
    (refused,) = make_plan(world.plane, held, utc_now(), new_ports=False).refused
    assert "is on this host already, not recovered;" in str(refused.error)
    assert make_plan(world.plane, held, None, new_ports=False).refused == ()


def test_a_service_that_subscribed_says_that_it_receives_nothing_any_more_and_is_promoted(
    world: World, new: World, secrets: Path
) -> None:
    world.backend.sources.rows[:] = ["one"]
    request = FollowRequest(
        CreateRequest("shop"), "postgresql://app@db/shop", Secret("source"), method=FollowMethod.LOGICAL
    )
    shop = world.settle(follow_service(world.plane, world.project.id, request))
    archive(world, shop.id)
    recover(new, collect(world.store, secrets, utc_now()))
    Observing(new.plane).observe_subscriptions()
    found = services.get_service(new.plane, world.project.id, shop.id)
    assert (status_of(found), found.upstream) == (Status.READY, shop.upstream)
    assert found.following is not None
    assert "its subscription is gone" in str(found.following.problem)
    promote_service(new.plane, world.project.id, shop.id, lsn=None, drain=False, neutralize=False)
    new.worker.run_until_idle()
    assert services.get_service(new.plane, world.project.id, shop.id).upstream is None
    assert new.backend.values(shop.id) == ["one"]


def test_logins_whose_keys_cannot_end_them_any_more_do_not_come_back(new: World, lost: Content) -> None:
    def with_logins(one: Procedure) -> Procedure:
        def boot(work: Work[Any]) -> Outcome:
            new.backend.volumes[work.subject].logins["ramet_login_lost"] = False
            return one.steps["boot"](work)

        return with_fields(one, steps={**one.steps, "boot": boot})

    new.worker = Worker(new.store, laws.rewritten(new.procedures, "recover", with_logins))
    for recovered in recover(new, lost):
        assert new.backend.volumes[recovered].logins == {}


def test_an_archive_that_is_not_set_is_waited_for(new: World, lost: Content) -> None:
    new.backend.archive.location = None
    recover(new, lost)
    found = progress_of(new.store, [lost.services[0].id])
    assert [(one.step, one.detail) for one in found] == [
        ("Choose the base backup", "RAMET_ARCHIVE_URL is not set, and must name the archive")
    ]


def test_a_deleted_service_is_not_brought_back_over_its_row(world: World, new: World, lost: Content) -> None:
    recover(new, lost)
    services.delete_service(new.plane, world.project.id, lost.services[1].id)
    new.worker.run_until_idle()
    recover(new, lost)
    assert [one.name for one in services.list_services(new.plane, world.project.id)] == ["shop"]


def test_a_service_that_was_deleted_here_is_refused_to_any_time(world: World, new: World, lost: Content) -> None:
    shop = lost.services[0]
    recover(new, lost)
    services.delete_service(new.plane, world.project.id, shop.id)
    new.worker.run_until_idle()
    now = utc_now()
    for target in (None, now):
        plan = make_plan(new.plane, [Holding(shop, "demo", now, now, 1, 1, 1)], target, new_ports=False)
        assert [one.error.code for one in plan.refused] == ["SERVICE_DELETED"]
        assert plan.entries == ()


def test_a_service_that_was_deleted_after_its_recovery_is_not_recovered_again_and_its_archive_is_removed(
    world: World, new: World, lost: Content, secrets: Path
) -> None:
    shop, other = (one.id for one in lost.services)
    recover(new, lost)
    OffHostArchive(new.plane).maintain()  # no base backup of after the recovery is there yet
    services.delete_service(new.plane, world.project.id, shop)
    new.worker.run_until_idle()
    content = collect(new.store, secrets, utc_now())
    assert (content.deleted, [one.id for one in content.services]) == ((shop,), [other])

    window = timedelta(days=30)
    discard_old_archives(new.plane, window, utc_now)
    assert new.backend.archive.bases[shop] != []
    discard_old_archives(new.plane, window, lambda: utc_now() + 2 * window)
    assert shop not in new.backend.archive.bases
    with new.store.read() as tx:
        assert [one.id for one in deleted_in_archive(tx)] == []
    assert collect(new.store, secrets, utc_now()).deleted == (shop,)


def test_a_service_that_is_deleted_while_it_is_being_recovered_is_remembered_as_deleted(
    world: World, new: World, lost: Content, secrets: Path
) -> None:
    (shop, _) = (one.id for one in lost.services)
    submit_recoveries(new.plane, list(lost.projects), list(lost.keys), lost.services, lost.secrets, None)
    services.delete_service(new.plane, world.project.id, shop)
    new.worker.run_until_idle()
    assert collect(new.store, secrets, utc_now()).deleted == (shop,)
    with new.store.read() as tx:
        assert [one.id for one in deleted_in_archive(tx)] == [shop]


def test_the_archive_of_a_service_whose_recovery_failed_outlives_the_deletion_of_what_was_left(
    world: World, new: World, lost: Content, secrets: Path
) -> None:
    shop = lost.services[0].id
    new.backend.archive.fault = Failed("ARCHIVE_DAMAGED", "The archive is damaged")
    recover(new, lost)
    services.delete_service(new.plane, world.project.id, shop)
    new.worker.run_until_idle()
    assert collect(new.store, secrets, utc_now()).deleted == ()
    with new.store.read() as tx:
        assert deleted_in_archive(tx) == []
