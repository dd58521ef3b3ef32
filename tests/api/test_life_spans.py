"""Life spans, labels, protection, several forks and the limits of a project over HTTP."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.control.sleep import submit_sleep
from ramet.model.life_span import MOST_SECONDS
from tests.api.world import JsonObject, World


def at(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_what_was_not_requested_is_absent(world: World) -> None:
    metadata = world.ready()["metadata"]
    names = {"expires_at", "ttl_seconds", "idle_ttl_seconds", "idle_expires_at", "expiry_warning", "labels"}
    assert not names & set(metadata)
    assert not metadata.get("protected")


def test_a_new_service_and_a_fork_have_what_was_requested_and_a_fork_inherits_nothing(world: World) -> None:
    kept = {"ttl_seconds": 7200, "idle_ttl_seconds": 600, "labels": {"pr": "42"}, "protected": True}
    parent = world.ready(**kept)
    metadata = parent["metadata"]
    assert {name: metadata[name] for name in kept} == kept
    left = datetime.fromisoformat(metadata["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=7100) < left <= timedelta(seconds=7200)
    world.work()
    assert "ttl_seconds" not in world.fork(parent)["metadata"]
    assert world.fork(parent, ttl_seconds=60)["metadata"]["ttl_seconds"] == 60


@pytest.mark.parametrize(
    "body",
    [
        {"ttl_seconds": 59},
        {"ttl_seconds": -1},
        {"ttl_seconds": MOST_SECONDS + 1},
        {"ttl_seconds": 10**30},
        {"ttl_seconds": 1.5},
        {"ttl_seconds": "2h"},
        {"idle_ttl_seconds": 0},
        {"expires_at": "tomorrow"},
        {"expires_at": "2026-01-15T10:30:00"},
        {"expires_at": "2001-01-15T10:30:00Z"},
        {"expires_at": "9999-12-31T23:59:59Z"},
        {"ttl_seconds": 7200, "expires_at": at(7200)},
    ],
)
def test_a_life_span_that_cannot_be_is_refused_everywhere_and_changes_nothing(world: World, body: JsonObject) -> None:
    service = world.ready(ttl_seconds=7200)
    path = world.path(service["service_id"])
    for where, sent in (
        (world.services_path, {"name": "other", **body}),
        (f"{path}/forkService", {"fork_strategy": "NOW", **body}),
        (f"{path}/forkServices", {"fork_strategy": "NOW", "count": 2, **body}),
        (f"{path}/extendService", body),
    ):
        answer = world.post(where, sent)
        assert answer.status_code == 400, where
        assert any(name in answer.text for name in body)
    assert world.listed() == [world.look(service)]
    assert world.look(service)["metadata"]["expires_at"] == service["metadata"]["expires_at"]


def test_a_life_span_is_extended_changed_and_removed(world: World) -> None:
    service = world.ready(ttl_seconds=60)
    path = world.path(service["service_id"], "extendService")
    again = world.post(path, {}).json()["metadata"]
    assert again["expires_at"] > service["metadata"]["expires_at"]
    longer = world.post(path, {"ttl_seconds": 7200, "idle_ttl_seconds": 900}).json()["metadata"]
    assert (longer["ttl_seconds"], longer["idle_ttl_seconds"]) == (7200, 900)
    idle = world.post(path, {"ttl_seconds": None}).json()["metadata"]
    assert ("expires_at" in idle, idle["idle_ttl_seconds"]) == (False, 900)
    world.post(path, {"idle_ttl_seconds": None})
    refused = world.post(path, {})
    assert (refused.status_code, refused.json()["code"]) == (400, "NO_LIFE_SPAN")


def test_a_protected_service_refuses_its_deletion_until_it_is_not(world: World) -> None:
    service = world.ready()
    path = world.path(service["service_id"])
    assert world.post(f"{path}/setProtection", {"protected": True}).json()["metadata"]["protected"] is True
    refused = world.delete(path)
    assert (refused.status_code, refused.json()["code"]) == (400, "PROTECTED")
    world.post(f"{path}/setProtection", {"protected": False})
    assert world.delete(path).status_code == 202


@pytest.mark.parametrize("body", [{}, {"protected": None}, {"protected": "yes"}, {"protected": 1}])
def test_a_protection_that_says_nothing_is_refused(world: World, body: JsonObject) -> None:
    assert world.post(world.path(world.ready()["service_id"], "setProtection"), body).status_code == 400


def test_labels_are_merged_and_filter_the_list(world: World) -> None:
    first, second = world.ready(labels={"pr": "42", "team": "a"}), world.ready(name="other", labels={"pr": "43"})
    path = world.path(second["service_id"], "updateLabels")
    changed = world.post(path, {"labels": {"team": "a", "owner": "ada lovelace", "pr": None}}).json()["metadata"]
    assert changed["labels"] == {"owner": "ada lovelace", "team": "a"}

    def listed(*labels: str) -> list[str]:
        query = "&".join(f"label={label}" for label in labels)
        return [one["service_id"] for one in world.get(f"{world.services_path}?{query}").json()]

    both = [first["service_id"], second["service_id"]]
    assert listed() == listed("team=a") == listed("team") == both
    assert listed("pr=42") == listed("team=a", "pr") == [first["service_id"]]
    assert listed("pr=4") == listed("team=a", "pr=43") == []
    assert world.get(f"{world.services_path}?label=UPPER").status_code == 400


BAD_LABELS: list[object] = [
    *({key: "x"} for key in ("", "Pr", "a" * 64, "-a", "a b")),
    *({"pr": value} for value in ("x" * 129, "a\nb", 1)),
    [],
    "x",
]


@pytest.mark.parametrize("labels", BAD_LABELS)
def test_bad_labels_are_refused_and_change_nothing(world: World, labels: object) -> None:
    service = world.ready(labels={"pr": "42"})
    answer = world.post(world.path(service["service_id"], "updateLabels"), {"labels": labels})
    assert (answer.status_code, "labels" in answer.text) == (400, True)
    assert world.post(world.services_path, {"name": "x", "labels": labels}).status_code == 400
    assert world.look(service)["metadata"]["labels"] == {"pr": "42"}


def test_there_are_at_most_32_labels(world: World) -> None:
    service = world.ready(labels={f"k{n}": "" for n in range(32)})
    answer = world.post(world.path(service["service_id"], "updateLabels"), {"labels": {"one-more": ""}})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_LABEL")


def test_several_forks_are_made_in_one_request_and_a_repetition_returns_them(world: World) -> None:
    parent = world.ready()
    path, body = world.path(parent["service_id"], "forkServices"), {"fork_strategy": "NOW", "name": "w", "count": 3}
    key = {"Idempotency-Key": "once"}
    answer = world.post(path, body, headers=key)
    assert answer.status_code == 202
    made = answer.json()
    assert [one["name"] for one in made] == ["w-1", "w-2", "w-3"]
    assert len({one["initial_password"] for one in made} | {one["endpoint"]["port"] for one in made}) == 6
    assert world.post(path, body, headers=key).json() == made
    assert world.post(path, {**body, "count": 2}, headers=key).status_code == 400
    world.work()
    assert {one["status"] for one in world.listed()} == {"READY"}
    gone, *kept = [one["service_id"] for one in made]
    world.delete(world.path(gone))
    world.work()
    again = [one["service_id"] for one in world.post(path, body, headers=key).json()]
    assert (again[1:], gone in again) == (kept, False)


@pytest.mark.parametrize("count", [0, -1, 101, 10**30, "3", 1.5, None])
def test_a_count_that_cannot_be_is_refused(world: World, count: object) -> None:
    parent = world.ready()
    body = {"fork_strategy": "NOW", "count": count}
    assert world.post(world.path(parent["service_id"], "forkServices"), body).status_code == 400
    assert len(world.listed()) == 1


def test_a_project_has_limits_for_forks_and_services_and_their_life_spans(world: World) -> None:
    limits = {"fork_ttl_seconds": 3600, "max_fork_ttl_seconds": 7200, "max_services": 4, "max_forks": 2}
    parent = world.ready()
    world.projects.change_limits(world.tenant.project.id, limits)
    shown = world.get(world.services_path.replace("/services", "/limits")).json()
    assert {name: shown[name] for name in limits} == limits
    path = world.path(parent["service_id"])
    several = world.post(f"{path}/forkServices", {"fork_strategy": "NOW", "count": 3})
    assert (several.status_code, several.json()["code"]) == (400, "PROJECT_LIMIT")
    assert len(world.listed()) == 1
    long = world.post(f"{path}/forkService", {"fork_strategy": "NOW", "ttl_seconds": 7300})
    assert (long.status_code, long.json()["code"]) == (400, "LIFE_SPAN_TOO_LONG")
    made = world.fork(parent)
    assert made["metadata"]["ttl_seconds"] == 3600
    world.work()
    never = world.post(world.path(made["service_id"], "extendService"), {"ttl_seconds": None})
    assert never.json()["metadata"]["ttl_seconds"] == 3600
    assert "ttl_seconds" not in world.ready(name="whole")["metadata"]


def test_a_service_sleeps_when_it_is_not_used(world: World) -> None:
    body = {"name": "notes", "sleep_after_seconds": 600}
    service_id = world.post(world.services_path, body).json()["service_id"]
    world.worker.run_until_idle()
    metadata = world.get(f"{world.services_path}/{service_id}").json()["metadata"]
    assert (metadata["sleep_after_seconds"], "sleeping" in metadata) == (600, False)
    assert submit_sleep(world.plane, service_id)
    world.worker.run_until_idle()
    asleep = world.get(f"{world.services_path}/{service_id}").json()
    assert (asleep["status"], asleep["paused"], asleep["metadata"]["sleeping"]) == ("READY", False, True)
    path = f"{world.services_path}/{service_id}/setSleep"
    assert world.post(path, {"sleep_after_seconds": 1}).json()["code"] == "INVALID_SLEEP_AFTER_SECONDS"
    for unknown in ("notanid123", "%C2%84"):
        answer = world.post(f"{world.services_path}/{unknown}/setSleep", {"sleep_after_seconds": None})
        assert answer.status_code == 404
    changed = world.post(path, {"sleep_after_seconds": None})
    assert changed.status_code == 202
    world.worker.run_until_idle()
    awake = world.get(f"{world.services_path}/{service_id}").json()
    assert (awake["status"], "sleep_after_seconds" in awake["metadata"]) == ("READY", False)
