"""The off-host archive of a service over HTTP."""

from datetime import timedelta

from ramet.control.duties.archive import OffHostArchive
from ramet.model.timestamps import rfc3339
from tests.api.world import World


def test_the_archive_of_a_service_is_shown_and_switched(world: World) -> None:
    world.backend.archive.location = "s3://bucket"
    service_id = world.ready()["service_id"]
    path = world.path(service_id, "archive")
    assert world.get(path).json() == {
        "enabled": False,
        "url": "s3://bucket",
        "server_name": service_id,
        "archived_until": None,
        "lag_seconds": None,
        "base_backup_time": None,
        "last_proven_restore": None,
        "problem": None,
    }
    answer = world.client.put(path, json={"enabled": True}, auth=world.tenant.credentials)
    assert (answer.status_code, answer.json()["enabled"]) == (200, True)
    answer = world.client.put(path, json={"enabled": None}, auth=world.tenant.credentials)
    assert (answer.status_code, answer.json()["enabled"]) == (200, False)


def test_without_an_archive_it_cannot_be_switched_on(world: World) -> None:
    path = world.path(world.ready()["service_id"], "archive")
    answer = world.client.put(path, json={"enabled": True}, auth=world.tenant.credentials)
    assert (answer.status_code, answer.json()["code"]) == (400, "NO_ARCHIVE")
    assert "RAMET_ARCHIVE_URL" in answer.text


def test_a_deleted_service_is_listed_and_forked(world: World) -> None:
    world.backend.archive.location = "s3://bucket"
    service = world.ready(environment_tag="PROD")
    OffHostArchive(world.plane).maintain()
    committed = world.backend.commit(service["service_id"], "row").committed_at
    listing = f"{world.services_path.removesuffix('services')}deletedServices"
    assert world.get(listing).json() == []
    world.advance(timedelta(seconds=1))
    world.backend.commit(service["service_id"], "later")
    world.delete(world.path(service["service_id"]))
    world.work()
    (listed,) = world.get(listing).json()
    assert (listed["service_id"], listed["name"]) == (service["service_id"], "shop")
    path = world.path(service["service_id"], "forkService")
    body = {"fork_strategy": "PITR", "target_time": rfc3339(committed), "from_deleted": True}
    plan = world.post(f"{path}?dry_run=true", body).json()
    assert plan["archive"]["download_bytes"] >= 0
    assert plan["archive"]["bytes_per_second"] == 50_000_000
    answer = world.post(path, body)
    assert answer.status_code == 202, answer.text
    world.work()
    fork = answer.json()["service_id"]
    assert world.backend.values(fork) == ["row"]
    report = world.get(world.path(fork, "forkReport")).json()
    assert report["archive"]["base_backup"] == plan["archive"]["base_backup"]
    assert world.post(path, {"fork_strategy": "NOW"}).status_code == 404


def test_the_restore_window_shows_what_the_archive_has(world: World) -> None:
    world.backend.archive.location = "s3://bucket"
    service = world.ready(environment_tag="PROD")
    path = world.path(service["service_id"], "restoreWindow")
    assert world.get(path).json()["archive"] is None
    OffHostArchive(world.plane).maintain()
    held = world.get(path).json()["archive"]
    assert held["earliest"] <= held["latest"]
