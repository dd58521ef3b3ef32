"""The off-host archive of a service over HTTP."""

from tests.api.world import World


def test_the_archive_of_a_service_is_shown_and_switched(world: World) -> None:
    world.backend.archive.location = "s3://bucket"
    path = world.path(world.ready()["service_id"], "archive")
    assert world.get(path).json() == {
        "enabled": False,
        "url": "s3://bucket",
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
