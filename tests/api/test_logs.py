"""The log of a service over HTTP."""

from datetime import datetime, timedelta

import pytest

from ramet.model.logs import LogEntry
from tests.api.world import JsonObject, World


@pytest.fixture
def service(world: World) -> JsonObject:
    made = world.ready()
    log = world.backend.volumes[made["service_id"]].log
    begin = world.clock() - timedelta(hours=1)
    log += [LogEntry(begin + timedelta(seconds=n), "ERROR" if n % 10 == 0 else "LOG", f"line {n}") for n in range(1200)]
    return made


def logs(world: World, service: JsonObject, query: str = "") -> JsonObject:
    answer = world.get(world.path(service["service_id"], "logs") + query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_rule_16_entries_come_newest_first_in_pages_of_500_with_both_cursors(world: World, service: JsonObject) -> None:
    first = logs(world, service)
    assert first["logs"][:2] == ["line 1199", "line 1198"]
    assert len(first["entries"]) == 500
    assert first["last_cursor"] == first["lastCursor"]
    second = logs(world, service, f"?cursor={first['last_cursor']}")
    third = logs(world, service, f"?cursor={second['last_cursor']}")
    assert [entry["message"] for entry in third["entries"]][-1] == "line 0"
    assert third.keys() == {"logs", "entries"}
    assert len(third["entries"]) == 200


def test_rule_16_until_has_nanoseconds_and_stays_for_all_pages(world: World, service: JsonObject) -> None:
    until = datetime.now().astimezone().isoformat(timespec="microseconds")
    until = until[:26] + "789" + until[26:].replace("+", "%2B")
    assert len(logs(world, service, f"?until={until}")["entries"]) == 500


def test_entries_are_chosen_by_severity_and_text(world: World, service: JsonObject) -> None:
    errors = logs(world, service, "?severities=error&severities=FATAL&search=line&search=119")
    assert [entry["message"] for entry in errors["entries"]] == ["line 1190"]
    assert errors["entries"][0]["severity"] == "ERROR"
    assert datetime.fromisoformat(errors["entries"][0]["timestamp"]).tzinfo is not None


@pytest.mark.parametrize(
    "query",
    [
        "?node=1",
        "?node=x",
        "?until=today",
        "?since=2026-01-01T00:00:00",
        "?search=%20",
        "?severities=",
        "?severities=NOPE",
    ],
)
def test_bad_parameters_are_named(world: World, service: JsonObject, query: str) -> None:
    answer = world.get(world.path(service["service_id"], "logs") + query)
    assert answer.status_code == 400
    assert query[1:].partition("=")[0] in answer.json()["message"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?search=%20", "Invalid value for search: ' '"),
        ("?severities=", "Invalid value for severities: ''"),
        ("?" + "&".join(["search=x"] * 21), "Invalid value for search: 'x', 'x'"),
    ],
)
def test_an_invalid_parameter_is_refused_with_its_value(
    world: World, service: JsonObject, query: str, message: str
) -> None:
    answer = world.get(world.path(service["service_id"], "logs") + query).json()
    assert message in answer["message"]
    assert answer["details"]


def test_a_new_service_has_a_log_of_no_entries(world: World) -> None:
    assert logs(world, world.ready()) == {"logs": [], "entries": []}
