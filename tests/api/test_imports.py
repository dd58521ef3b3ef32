"""Imports over HTTP: the request, its dry run, its refusal, and the report."""

from dataclasses import replace
from typing import Any

import pytest

from ramet.backends.interface.sources import Destination
from ramet.errors import Failed
from tests.api.world import World

BODY = {
    "name": "shop",
    "source_url": "postgresql://app@db.example/shop",
    "source_password": "source",
    "environment_tag": "PROD",
}
KEY = {"Idempotency-Key": "d3b07384-d9a0-4c5e-8f3e-2b9f0a1c7e55"}


def path_of(world: World, query: str = "") -> str:
    return world.services_path.removesuffix("services") + f"imports{query}"


def imported(world: World, **fields: Any) -> dict[str, Any]:
    answer = world.post(path_of(world), {**BODY, **fields})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_an_import_becomes_a_service_with_the_rows_of_its_source(world: World) -> None:
    world.backend.sources.rows[:] = ["one", "two"]
    accepted = imported(world)
    assert (accepted["status"], accepted["metadata"]["environment"]) == ("QUEUED", "PROD")
    assert accepted["initial_password"]
    world.work()
    assert world.look(accepted)["status"] == "READY"
    assert world.backend.values(accepted["service_id"]) == ["one", "two"]
    assert world.backend.sources.kept == {}


def test_a_dry_run_reports_and_makes_nothing(world: World) -> None:
    answer = world.post(path_of(world, "?dry_run=true"), BODY)
    assert answer.status_code == 200
    assert answer.json()["source"] == "app@db.example:5432/shop"
    assert answer.json()["findings"][0] == {
        "effect": "CHANGED",
        "subject": "owners",
        "message": "what postgres owns will belong to tsdbadmin",
        "remedy": "",
    }
    assert "status" not in answer.json()
    assert world.listed() == []


def test_the_version_is_chosen_unless_it_is_older_than_the_source(world: World) -> None:
    facts = world.backend.sources.facts
    world.backend.sources.facts = replace(facts, version="16.1", major=16)
    accepted = imported(world, pg_major=17)
    world.work()
    assert world.look(accepted)["metadata"]["pg_major"] == 17
    for version, code in ((15, "IMPORT_REFUSED"), (7, "INVALID_VERSION")):
        answer = world.post(path_of(world), {**BODY, "pg_major": version})
        assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_source_that_cannot_be_imported_is_refused_with_all_reasons(world: World) -> None:
    world.backend.sources.destination = Destination(18, 18, 0, missing_extensions=("postgis",))
    answer = world.post(path_of(world), BODY)
    assert (answer.status_code, answer.json()["code"]) == (400, "IMPORT_REFUSED")
    assert "postgis" in answer.json()["message"]
    assert "size: the source has" in answer.json()["details"]
    assert world.listed() == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"source_password": "wrong"}, "SOURCE_UNREADABLE"),
        ({"source_password": ""}, "INVALID_PASSWORD"),
        ({"source_url": "postgresql://app:geheim@db.example/shop"}, "INVALID_SOURCE"),
        ({"source_url": "postgresql:///shop"}, "INVALID_SOURCE"),
        ({"name": ""}, "INVALID_NAME"),
        ({"service_type": "MYSQL"}, "INVALID_FIELD"),
    ],
    ids=["wrong password", "no password", "password in the URL", "no host", "name", "type"],
)
def test_a_wrong_request_is_refused_without_repeating_secrets(world: World, fields: dict[str, Any], code: str) -> None:
    answer = world.post(path_of(world), {**BODY, **fields})
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert "geheim" not in answer.text
    assert world.listed() == []


def test_a_repeated_import_answers_with_the_same_service(world: World) -> None:
    first, second = (world.post(path_of(world), BODY, headers=KEY) for _ in range(2))
    assert first.json() == second.json()
    other = world.post(path_of(world), {**BODY, "keep_owners": False}, headers=KEY)
    assert other.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_the_report_stays_when_the_import_has_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise Failed("DUMP_FAILED", "pg_dump could not read the source", "connection lost")

    monkeypatch.setattr(world.backend.sources, "fetch", fail)
    accepted = imported(world)
    world.work()
    assert world.look(accepted)["status"] == "UNSTABLE"
    report = world.get(world.path(accepted["service_id"], "importReport")).json()
    assert (report["status"], report["error"]) == ("FAILED", "pg_dump could not read the source: connection lost")
    assert "loaded_tables" not in report
    assert world.backend.volumes == {}
    assert world.backend.sources.kept == {}


def test_the_report_of_an_import_says_what_was_loaded(world: World) -> None:
    accepted = imported(world)
    path = world.path(accepted["service_id"], "importReport")
    assert world.get(path).json()["status"] == "RUNNING"
    world.work()
    report = world.get(path).json()
    assert (report["status"], report["loaded_tables"], report["problems"]) == ("SUCCEEDED", 1, [])


def test_the_report_stays_when_the_service_was_deleted(world: World) -> None:
    accepted = imported(world)
    world.work()
    world.delete(world.path(accepted["service_id"]))
    world.work()
    assert world.get(world.path(accepted["service_id"])).status_code == 404
    assert world.get(world.path(accepted["service_id"], "importReport")).json()["status"] == "SUCCEEDED"


def test_services_that_were_not_imported_have_no_report(world: World) -> None:
    answer = world.get(world.path(world.ready()["service_id"], "importReport"))
    assert (answer.status_code, answer.json()["code"]) == (404, "NO_IMPORT")


def test_a_report_that_the_caller_does_not_see_is_answered_as_that_of_a_service_that_does_not_exist(
    world: World,
) -> None:
    accepted, other = imported(world), world.new_tenant("other")
    world.work()
    path = world.path(accepted["service_id"], "importReport")
    theirs = path.replace(world.tenant.project.id, other.project.id)
    forker = world.forker(accepted)
    for answer in (
        forker.get(path),
        world.client.get(theirs, auth=other.credentials),
        world.get(world.path("a2b3c4d5e6", "importReport")),
        world.get(world.path("%00", "importReport")),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "SERVICE_NOT_FOUND")
        assert answer.json()["message"] == "no service with that id exists"


def test_the_password_is_in_no_answer(world: World) -> None:
    world.backend.sources.password = type(world.backend.sources.password)("geheim-42")
    accepted = world.post(path_of(world), {**BODY, "source_password": "geheim-42"})
    world.work()
    path = world.path(accepted.json()["service_id"])
    answers = [accepted, world.get(path), world.get(f"{path}/importReport"), world.get(f"{path}/operations")]
    assert all(answer.status_code < 300 and "geheim-42" not in answer.text for answer in answers)
