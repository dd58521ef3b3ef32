"""`ramet service settings`."""

from harness.waiting import eventually
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_settings_are_shown_changed_and_reset(terminal: Terminal, world: World) -> None:
    terminal.made("service", "create", "shop")
    eventually(lambda: terminal.made("service", "get", "shop")["status"] == "READY")
    shown = terminal.ramet("service", "settings", "shop")
    assert "no settings of its own" in shown.out + shown.err
    assert "64MB" in terminal.ramet("service", "settings", "shop", "work_mem=64MB").out
    waiting = terminal.ramet("service", "settings", "shop", "max_connections=200", "--reset", "work_mem")
    assert "Pending restart: max_connections" in waiting.out + waiting.err
    done = terminal.ramet("service", "settings", "shop", "--restart")
    assert "Pending" not in done.out + done.err
    assert "statement_timeout" in terminal.ramet("service", "settings", "shop", "--all").out
    assert terminal.ramet("service", "settings", "shop", "work_mem").code == 3
    assert "fsync" in terminal.ramet("service", "settings", "shop", "fsync=off").err
