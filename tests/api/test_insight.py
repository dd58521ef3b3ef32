"""Statements and sessions of a service over HTTP."""

import pytest

from tests.api.world import World


def test_statements_and_sessions_are_shown_of_a_ready_service(world: World) -> None:
    service = world.ready()
    world.backend.commit(service["service_id"], "one")
    (statement,) = world.get(world.path(service["service_id"], "topStatements")).json()["statements"]
    assert (statement["text"], statement["calls"]) == ("INSERT INTO rows VALUES ($1)", 1)
    (session,) = world.get(world.path(service["service_id"], "activity?limit=5")).json()["sessions"]
    assert (session["state"], session["blocked_by"]) == ("idle", [])
    world.backend.crash(service["service_id"])
    assert world.get(world.path(service["service_id"], "activity")).status_code in (409, 503)


@pytest.mark.parametrize("limit", ["0", "201", "x"])
def test_a_limit_has_bounds(world: World, limit: str) -> None:
    service = world.ready()
    assert world.get(world.path(service["service_id"], f"topStatements?limit={limit}")).status_code == 400


def test_tables_are_shown_with_unused_indexes_of_a_database_that_exists(world: World) -> None:
    service = world.ready()
    world.backend.commit(service["service_id"], "one")
    found = world.get(world.path(service["service_id"], "tables")).json()
    assert [(one["name"], one["rows"]) for one in found["tables"]] == [("rows", 1)]
    assert [one["name"] for one in found["unused_indexes"]] == ["rows_value"]
    for other in ("no'thing", "", "a" * 64, "tsdb%00"):
        missing = world.get(world.path(service["service_id"], f"tables?database={other}"))
        assert (missing.status_code, missing.json()["code"]) == (404, "DATABASE_NOT_FOUND")
