"""Restore windows, snapshots, fork reports and dry runs over HTTP."""

from datetime import UTC, datetime

from tests.api.world import World


def test_the_window_has_its_snapshots_and_settings(world: World) -> None:
    service = world.ready()
    answer = world.get(world.path(service["service_id"], "restoreWindow"))
    assert answer.status_code == 200
    window = answer.json()
    assert window["earliest"] == window["snapshots"][0]["time"]
    assert datetime.fromisoformat(window["latest"]) <= datetime.now(UTC)
    assert (window["gaps"], window["window_days"], window["snapshot_interval_seconds"]) == ([], 7, 600)


def test_a_service_that_is_being_made_has_an_empty_window_and_settings(world: World) -> None:
    service = world.create()
    assert service["status"] == "QUEUED"
    window = world.get(world.path(service["service_id"], "restoreWindow"))
    assert window.status_code == 200, window.text
    assert (window.json()["earliest"], window.json()["snapshots"], window.json()["gaps"]) == (None, [], [])
    settings = world.client.put(
        world.path(service["service_id"], "restoreSettings"),
        json={"window_days": 30},
        auth=world.tenant.credentials,
    )
    assert (settings.status_code, settings.json()["window_days"]) == (200, 30)


def test_settings_are_changed_one_by_one(world: World) -> None:
    path = world.path(world.ready()["service_id"], "restoreSettings")
    answer = world.client.put(path, json={"window_days": 30}, auth=world.tenant.credentials)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["window_days"], answer.json()["snapshot_wal_bytes"]) == (30, 128 * 1024**2)
    refused = world.client.put(path, json={"window_days": 0}, auth=world.tenant.credentials)
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_FIELD")


def test_a_snapshot_is_made_listed_and_deleted(world: World) -> None:
    path = world.path(world.ready()["service_id"], "snapshots")
    made = world.post(path, {"name": "before"})
    assert (made.status_code, made.json()["status"], made.json()["kind"]) == (202, "CREATING", "MANUAL")
    world.work()
    listed = world.get(path).json()
    assert [(one["name"], one["status"]) for one in listed] == [(None, "AVAILABLE"), ("before", "AVAILABLE")]
    assert world.delete(f"{path}/{made.json()['id']}").status_code == 202
    world.work()
    assert len(world.get(path).json()) == 1


def test_a_snapshot_needs_no_body(world: World) -> None:
    assert world.post(world.path(world.ready()["service_id"], "snapshots")).status_code == 202


def test_a_fork_has_a_report_and_a_parent_has_none(world: World) -> None:
    parent = world.ready()
    fork = world.fork(parent)
    assert world.get(world.path(fork["service_id"], "forkReport")).json()["code"] == "INVALID_STATE"
    world.work()
    report = world.get(world.path(fork["service_id"], "forkReport")).json()
    assert (report["strategy"], report["parent_service_id"]) == ("NOW", parent["service_id"])
    assert {step["step"] for step in report["steps"]} >= {"capture", "recover"}
    assert world.get(world.path(parent["service_id"], "forkReport")).status_code == 404


def test_a_dry_run_returns_the_plan_and_creates_nothing(world: World) -> None:
    parent = world.ready()
    restore_time = world.backend.commit(parent["service_id"], "row").committed_at.isoformat()
    path = world.path(parent["service_id"], "forkService") + "?dry_run=true"
    answer = world.post(
        path, {"fork_strategy": "PITR", "target_time": restore_time, "cpu_millis": "500", "memory_gbs": "2"}
    )
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["name"] == f"{parent['name']}-fork"
    assert datetime.fromisoformat(plan["target_time"]) == datetime.fromisoformat(restore_time)
    assert plan["base_snapshot"]["kind"] == "INITIAL"
    assert (plan["cpu_millis"], plan["memory_gbs"]) == (500, 2)
    assert plan["estimated_seconds"] > 0
    assert len(world.listed()) == 1


def test_a_dry_run_is_refused_as_the_fork_would_be(world: World) -> None:
    path = world.path(world.ready()["service_id"], "forkService") + "?dry_run=true"
    refused = world.post(path, {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"})
    assert (refused.status_code, refused.json()["code"]) == (400, "OUTSIDE_RESTORE_WINDOW")
