"""Following a database elsewhere over HTTP: the request, its dry run, its refusals, the lag, and the promotion."""

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ramet.backends.interface.followers import HostFacts
from ramet.backends.interface.subscriptions import SubscriptionState
from ramet.backends.interface.values import Progress, Server
from ramet.control.duties.sampling import Sampling
from ramet.errors import Failed, Unseen
from ramet.followers.observation import Observing
from ramet.model.metrics import key_of
from ramet.model.source_copies import PAUSES
from ramet.model.upstream import Following
from ramet.operations import transitions
from ramet.store import metrics, operations
from ramet.store.operations import Operation
from tests.api.world import World, open_world

BODY = {
    "name": "shop",
    "source_url": "postgresql://replicator@db.example/shop",
    "source_password": "source",
    "environment_tag": "PROD",
}


def path_of(world: World, query: str = "") -> str:
    return world.services_path.removesuffix("services") + f"followers{query}"


@pytest.fixture
def follower(world: World) -> dict[str, Any]:
    """A READY service that follows a source with two rows."""
    world.backend.followers.rows[:] = ["one", "two"]
    answer = world.post(path_of(world), BODY)
    assert answer.status_code == 202, answer.text
    world.work()
    return dict(answer.json())


def test_a_service_that_follows_has_the_rows_and_the_lag_of_its_source(world: World, follower: dict[str, Any]) -> None:
    assert follower["initial_password"]
    found = world.look(follower)
    assert found["status"] == "READY"
    assert world.backend.values(follower["service_id"]) == ["one", "two"]
    following = found["metadata"]["following"]
    assert (following["source"], following["method"]) == ("replicator@db.example:5432/shop", "PHYSICAL")
    assert (following["lag_bytes"], following["lag_seconds"]) == (0, 0.0)


def test_a_source_that_does_not_answer_delays_no_other_one(
    world: World, follower: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (world.post(path_of(world), {**BODY, "method": "LOGICAL", "name": name}).json() for name in "ab")
    world.work()
    duty, observe, other_was_seen = Observing(world.plane), world.backend.subscriptions.observe, threading.Event()

    def observed(server: Server) -> SubscriptionState:
        if server.service_id == one["service_id"]:
            assert other_was_seen.wait(20)
        else:
            other_was_seen.set()
        return observe(server)

    monkeypatch.setattr(world.backend.subscriptions, "observe", observed)
    world.advance(timedelta(seconds=10))
    duty.observe_standbys()
    assert not other_was_seen.is_set()
    duty.observe_subscriptions()
    assert [world.look(each)["metadata"]["following"]["lag_bytes"] for each in (one, two)] == [0, 0]


def test_a_source_whose_transactions_do_not_end_is_waited_for(world: World) -> None:
    world.backend.subscriptions.blocked = "Transactions have to end"
    service = world.post(path_of(world), {**BODY, "method": "LOGICAL"}).json()
    world.worker.run_until_idle(limit_seconds=0.5)
    assert (world.look(service)["status"], world.backend.subscriptions.published) == ("CONFIGURING", set())
    world.backend.subscriptions.blocked = None
    world.work()
    assert (world.look(service)["status"], world.backend.subscriptions.published) == ("READY", {service["service_id"]})


def test_why_nothing_arrives_is_shown_and_recorded(world: World, follower: dict[str, Any]) -> None:
    world.backend.followers.problem = "The source cannot be reached. It follows again by itself."
    Observing(world.plane).observe_standbys()
    following = world.look(follower)["metadata"]["following"]
    assert (following["problem"], following.get("lag_bytes")) == (world.backend.followers.problem, None)
    Sampling(world.plane).sample()
    with world.plane.store.read() as tx:
        sample = metrics.last_sample(tx, follower["service_id"], world.plane.clock().replace(year=2000))
    assert sample is not None
    assert sample.values[key_of("ramet_source_lag_seconds")] == 0.0
    assert key_of("ramet_source_lag_bytes") not in sample.values


def test_a_time_that_was_not_received_is_refused_while_nothing_arrives(world: World, follower: dict[str, Any]) -> None:
    now = world.plane.clock()
    world.backend.followers.problem = "The source cannot be reached."
    world.backend.followers.complete_until = now
    Observing(world.plane).observe_standbys()
    path = f"{world.services_path}/{follower['service_id']}/forkService"
    later = {"fork_strategy": "PITR", "target_time": world.plane.clock().isoformat()}
    answer = world.post(path, later)
    assert (answer.status_code, answer.json()["code"]) == (400, "NOT_RECEIVED")
    assert world.post(path, {**later, "target_time": now.isoformat()}).status_code == 202


def test_a_standby_that_only_turns_its_clients_away_is_forked_to_now_and_recorded_as_rarely_as_others(
    world: World, follower: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    standbys, observing = world.backend.followers, Observing(world.plane)
    standbys.complete_until, observe = world.plane.clock(), standbys.observe

    def observe_closed(server: Server) -> Following:
        found = observe(server)
        assert found is not None
        return msgspec.structs.replace(found, problem="Nobody can log in.", still_receives=True)

    monkeypatch.setattr(standbys, "observe", observe_closed)
    observing.observe_standbys()
    before = world.look(follower)["metadata"]["following"]
    assert before["problem"] == "Nobody can log in."
    standbys.rows.append("one more")
    observing.observe_standbys()
    assert world.look(follower)["metadata"]["following"] == before
    path = f"{world.services_path}/{follower['service_id']}/forkService"
    target = {"fork_strategy": "PITR", "target_time": world.plane.clock().isoformat()}
    assert world.post(path, target).status_code == 202


def test_a_dry_run_reports_and_makes_nothing(world: World) -> None:
    answer = world.post(path_of(world, "?dry_run=true"), BODY)
    assert answer.status_code == 200
    assert answer.json()["source"] == "replicator@db.example:5432/shop"
    assert [one["effect"] for one in answer.json()["findings"]] == ["NOTED"]
    assert world.listed() == []


def test_a_source_that_cannot_be_followed_is_refused_with_all_reasons(world: World) -> None:
    world.backend.followers.host = HostFacts((15, 17), "x86_64", 0)
    facts = world.backend.followers.facts
    world.backend.followers.facts = replace(
        facts,
        tablespaces=("fast",),
        reserved_roles=("ramet",),
        replication_problem="no pg_hba.conf entry",
        settings={**facts.settings, "wal_level": "minimal", "full_page_writes": "off", "wal_segment_size": "1048576"},
    )
    answer = world.post(path_of(world), {**BODY, "slot": "standby"})
    assert (answer.status_code, answer.json()["code"]) == (400, "FOLLOW_REFUSED")
    for subject in ("version", "replication", "wal_level", "tablespaces", "roles", "size", "slot", "WAL segment size"):
        assert f"{subject}: " in answer.json()["details"], subject
    assert world.listed() == []


def test_the_maintenance_database_of_a_source_is_followed_by_no_standby(world: World) -> None:
    followers = world.backend.followers
    for databases, refused in ((("postgres", "shop"), True), (("shop", "postgres"), False)):
        followers.facts = replace(followers.facts, databases=databases)
        answer = world.post(path_of(world, "?dry_run=true"), BODY)
        subjects = [one["subject"] for one in answer.json()["findings"] if one["effect"] == "REFUSED"]
        assert ("databases" in subjects) is refused
    followers.facts = replace(followers.facts, databases=("postgres",))
    answer = world.post(path_of(world), BODY)
    assert (answer.status_code, answer.json()["code"]) == (400, "FOLLOW_REFUSED")
    assert "LOGICAL" in answer.json()["details"]


def test_a_source_whose_wal_no_server_here_could_replay_is_refused(world: World) -> None:
    followers = world.backend.followers
    followers.host = replace(followers.host, wal_compressions=("lz4",))
    for compression, refused in (("pglz", False), ("lz4", False), ("zstd", True)):
        followers.facts = replace(
            followers.facts, settings={**followers.facts.settings, "wal_compression": compression}
        )
        answer = world.post(path_of(world, "?dry_run=true"), BODY)
        subjects = [one["subject"] for one in answer.json()["findings"] if one["effect"] == "REFUSED"]
        assert ("wal_compression" in subjects) is refused, compression


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        ({}, None),
        ({"collation_version": "2.31"}, "by version 2.31 of the C library"),
        ({"icu_version": "153.120"}, "by version 153.120 of ICU"),
    ],
)
def test_a_source_that_may_sort_text_otherwise_is_said_to(
    world: World, facts: dict[str, Any], finding: str | None
) -> None:
    followers = world.backend.followers
    followers.facts = replace(followers.facts, **facts)
    found = world.post(path_of(world, "?dry_run=true"), BODY).json()["findings"]
    said = [one["message"] for one in found if one["subject"] == "collation"]
    assert [finding is not None and finding in one for one in said] == ([] if finding is None else [True])


def test_a_standby_has_the_version_of_its_source_and_a_subscriber_the_one_that_was_chosen(world: World) -> None:
    answer = world.post(path_of(world), {**BODY, "pg_major": 17})
    assert (answer.status_code, answer.json()["code"]) == (400, "FOLLOW_REFUSED")
    assert "has the major version of its source, 18" in answer.json()["details"]
    assert world.post(path_of(world), {**BODY, "pg_major": 18}).status_code == 202
    logical = {**BODY, "method": "LOGICAL"}
    world.backend.sources.facts = replace(world.backend.sources.facts, major=15)
    assert world.post(path_of(world), {**logical, "pg_major": 17}).json()["metadata"]["pg_major"] == 17
    assert "needs 16 or later" in world.post(path_of(world), {**logical, "pg_major": 15}).json()["details"]


def test_a_promotion_waits_for_the_source_and_makes_the_service_independent(
    world: World, follower: dict[str, Any]
) -> None:
    path = f"{world.services_path}/{follower['service_id']}/promote"
    world.backend.followers.rows.append("three")
    world.backend.followers.is_down = True
    answer = world.post(path, {"drain": True, "wait_for_lsn": "0/3000060"})
    assert (answer.status_code, answer.json()["status"]) == (202, "UPGRADING")
    world.work()
    found = world.look(follower)
    assert (found["status"], found["metadata"].get("following")) == ("READY", None)
    assert world.backend.values(follower["service_id"]) == ["one", "two", "three"]
    assert world.backend.followers.kept == {}
    again = world.post(path, {})
    assert (again.status_code, again.json()["code"]) == (400, "NOT_FOLLOWING")


def test_a_promotion_that_cannot_look_at_its_source_does_not_start_the_server(
    world: World, follower: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [Unseen("CANNOT_LOOK", "The server cannot be checked now")]
    await_end, starts = world.backend.followers.await_end, list[str]()

    def look(server: Server, lsn: str | None, *, drain: bool, takes_place: bool = False) -> str | None:
        if failures:
            raise failures.pop()
        return await_end(server, lsn, drain=drain, takes_place=takes_place)

    def start(server: Server, **_: bool) -> None:
        starts.append(server.service_id)

    monkeypatch.setattr(transitions, "_UNSEEN_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(world.backend.followers, "await_end", look)
    monkeypatch.setattr(world.backend.servers, "start", start)
    assert world.post(world.path(follower["service_id"], "promote"), {}).status_code == 202
    world.work()
    assert (world.look(follower)["status"], failures, starts) == ("READY", [], [])


def test_an_lsn_of_another_form_is_refused(world: World, follower: dict[str, Any]) -> None:
    answer = world.post(f"{world.services_path}/{follower['service_id']}/promote", {"wait_for_lsn": "now"})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_FIELD")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"slot": "one", "create_slot": True}, "slot and create_slot exclude each other"),
        ({"method": "LOGICAL", "create_slot": True}, "create_slot: for the method PHYSICAL only"),
        ({"method": "LOGICAL", "archive": "shop"}, "archive: for the method PHYSICAL only"),
        ({"archive": "../shop"}, "archive must have 1 to 63 letters"),
        ({"archive": ""}, "archive must have 1 to 63 letters"),
    ],
)
def test_a_slot_and_an_archive_that_cannot_be_are_refused(world: World, fields: dict[str, Any], wrong: str) -> None:
    answer = world.post(path_of(world), {**BODY, **fields})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_FIELD")
    assert wrong in answer.json()["message"]


@pytest.mark.parametrize(
    ("trusted", "code"),
    [(None, None), (("db.example", "other"), None), (("other",), "SOURCE_NOT_TRUSTED"), ((), "SOURCE_NOT_TRUSTED")],
)
def test_only_servers_that_the_operator_trusts_are_followed_as_a_standby(
    tmp_path: Path, trusted: tuple[str, ...] | None, code: str | None
) -> None:
    for world in open_world(tmp_path, standby_sources=trusted):
        for method, expected in (("PHYSICAL", code), ("LOGICAL", None)):
            answer = world.post(path_of(world), {**BODY, "method": method}).json()
            assert answer.get("code") == expected, answer
            assert expected is None or "RAMET_STANDBY_SOURCES" in answer["details"]


def test_an_archive_that_this_host_does_not_have_is_refused(world: World) -> None:
    answer = world.post(path_of(world), {**BODY, "archive": "shop"})
    assert (answer.status_code, answer.json()["code"]) == (400, "FOLLOW_REFUSED")
    assert "RAMET_SOURCE_ARCHIVES" in answer.json()["details"]
    world.backend.followers.archives = ("shop",)
    assert world.post(path_of(world), {**BODY, "archive": "shop"}).status_code == 202


def test_a_standby_that_cannot_catch_up_is_copied_again_at_growing_intervals_and_never_without_end(
    world: World, follower: dict[str, Any]
) -> None:
    followers, duty = world.backend.followers, Observing(world.plane)
    followers.needs_copy, followers.problem, followers.failure = True, "The source has removed WAL.", "it is away"
    for attempt, pause in enumerate(PAUSES, 1):
        duty.observe_standbys()
        problem = world.look(follower)["metadata"]["following"]["problem"]
        assert f"Attempt {attempt} of 5 to copy it again begins after" in problem
        assert ("it is away" in problem) == (attempt > 1)
        world.advance(pause)
        duty.observe_standbys()
        found = world.look(follower)
        assert found["status"] == "READY"
        assert f"being copied again, attempt {attempt} of 5" in found["metadata"]["following"]["problem"]
        world.work()
    world.advance(timedelta(days=2))
    duty.observe_standbys()
    assert "not copied again by itself after 5 attempts" in world.look(follower)["metadata"]["following"]["problem"]
    for verb in ("stop", "start"):
        assert world.post(f"{world.services_path}/{follower['service_id']}/{verb}").status_code == 202
        world.work()
    duty.observe_standbys()
    assert "Attempt 1 of 5" in world.look(follower)["metadata"]["following"]["problem"]


def test_a_service_that_is_copied_again_is_forked_meanwhile_and_has_the_rows_of_its_source_afterwards(
    world: World, follower: dict[str, Any]
) -> None:
    followers, duty = world.backend.followers, Observing(world.plane)
    followers.needs_copy, followers.problem, followers.timeline = True, "The source was set back.", 2
    duty.observe_standbys()
    world.advance(PAUSES[0])
    duty.observe_standbys()
    path = f"{world.services_path}/{follower['service_id']}"
    assert world.post(f"{path}/forkService", {"fork_strategy": "NOW"}).status_code == 202
    assert world.post(f"{path}/resize", {"cpu_millis": "500", "memory_gbs": "2"}).json()["code"] == "INVALID_STATE"
    followers.rows[:] = ["other"]
    world.work()
    found = world.look(follower)
    assert (found["status"], found["metadata"]["following"].get("problem")) == ("READY", None)
    assert world.backend.values(follower["service_id"]) == ["other"]
    kept = world.get(f"{path}/snapshots").json()
    assert sorted(one["kind"] for one in kept) == ["INITIAL", "MANUAL"]


def test_a_source_that_lost_wal_on_the_same_timeline_is_copied_again_though_it_streams(
    world: World, follower: dict[str, Any]
) -> None:
    followers, duty = world.backend.followers, Observing(world.plane)
    followers.needs_copy, followers.has_diverged, followers.problem = True, True, "The source has lost WAL."
    duty.observe_standbys()
    followers.needs_copy, followers.has_diverged, followers.problem = False, False, None
    duty.observe_standbys()
    assert "has lost WAL" in world.look(follower)["metadata"]["following"]["problem"]
    world.advance(PAUSES[0])
    duty.observe_standbys()
    followers.rows[:] = ["other"]
    world.work()
    duty.observe_standbys()
    found = world.look(follower)
    assert (found["status"], found["metadata"]["following"].get("problem")) == ("READY", None)
    assert world.backend.values(follower["service_id"]) == ["other"]
    kept = world.get(f"{world.services_path}/{follower['service_id']}/snapshots").json()
    assert sorted(one["kind"] for one in kept) == ["INITIAL", "MANUAL"]


@pytest.mark.parametrize("verb", ["stop", "promote", "delete"])
def test_a_copy_under_way_ends_when_the_service_is_paused_promoted_or_deleted(
    world: World, follower: dict[str, Any], verb: str
) -> None:
    followers, duty = world.backend.followers, Observing(world.plane)
    followers.needs_copy, followers.problem = True, "The source has removed WAL."
    duty.observe_standbys()
    world.advance(PAUSES[0])
    duty.observe_standbys()
    path = f"{world.services_path}/{follower['service_id']}"
    answer = world.delete(path) if verb == "delete" else world.post(f"{path}/{verb}", {} if verb == "promote" else None)
    assert answer.status_code == 202, answer.text
    world.work()
    assert followers.copied == set()
    if verb != "delete":
        assert world.look(follower)["status"] == {"stop": "PAUSED", "promote": "READY"}[verb]


@pytest.mark.parametrize("verb", ["stop", "promote"])
def test_a_copy_that_ends_just_as_the_service_is_paused_or_promoted_is_discarded(
    world: World, follower: dict[str, Any], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    followers, duty, copy = world.backend.followers, Observing(world.plane), world.backend.followers.copy_again
    followers.needs_copy, followers.problem = True, "The source has removed WAL."
    duty.observe_standbys()
    world.advance(PAUSES[0])
    duty.observe_standbys()

    def copied(server: Server, timeout_seconds: float) -> Progress:
        found = copy(server, timeout_seconds)
        if found.facts is not None:
            path = f"{world.services_path}/{follower['service_id']}/{verb}"
            assert world.post(path, {} if verb == "promote" else None).status_code == 202
        return found

    monkeypatch.setattr(followers, "copy_again", copied)
    world.work()
    assert followers.copied == set()
    assert world.look(follower)["status"] == {"stop": "PAUSED", "promote": "READY"}[verb]


def test_the_password_of_a_source_is_forgotten_when_its_service_could_not_be_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(server: Server, sealed: str) -> None:
        raise Failed("SLOT_NOT_MADE", "The slot cannot be made")

    monkeypatch.setattr(world.backend.followers, "keep", refuse)
    made = world.post(path_of(world), BODY).json()
    assert [one.state["sealed"] is None for one in operations_of(world, made)] == [False]
    world.work()
    assert [one.state["sealed"] is None for one in operations_of(world, made)] == [True]


def operations_of(world: World, service: dict[str, Any]) -> list[Operation]:
    with world.store.read() as tx:
        return operations.of_subject(tx, service["service_id"])
