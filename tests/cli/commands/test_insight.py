"""`ramet db top` and `ramet db activity`."""

from harness.waiting import eventually
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_statements_and_sessions_are_listed(terminal: Terminal, world: World) -> None:
    made = terminal.made("service", "create", "shop")
    eventually(lambda: terminal.made("service", "get", "shop")["status"] == "READY")
    assert "No statements" in terminal.ramet("db", "top", "shop").err + terminal.ramet("db", "top", "shop").out
    world.backend.commit(made["service_id"], "one")
    assert "INSERT INTO rows" in terminal.ramet("db", "top", "shop", "--limit", "1").out
    assert "idle" in terminal.ramet("db", "activity", "shop").out
    tables = terminal.ramet("db", "tables", "shop")
    assert "public.rows" in tables.out
    assert "rows_value" in tables.out
