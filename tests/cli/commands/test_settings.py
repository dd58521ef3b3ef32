"""`ramet service settings`."""

from collections.abc import Collection

import pytest

from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.backends.interface.values import Server
from ramet.client import Client
from ramet.errors import Failed
from ramet.model.status import Status
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


def test_a_value_that_was_taken_back_is_an_error(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.made("service", "create", "stubborn")
    assert terminal.ramet("service", "settings", "stubborn", "work_mem=64MB").code == 0
    assert terminal.ramet("service", "settings", "stubborn", "work_mem=0064MB", "jit=false").code == 0

    apply = world.backend.parameters.apply

    def refuse(server: Server) -> Collection[str]:
        if ("work_mem", "128MB") in server.parameters:
            raise Failed("NO", "Refused for a test")
        return apply(server)

    def miss_the_undo(client: Client, service_id: str, *_: object) -> Service:
        """Wait as a client does that asks before and after the short UNSTABLE, which is an error of its own."""
        eventually(lambda: client.get_service(service_id).status is Status.READY)
        return client.get_service(service_id)

    monkeypatch.setattr(world.backend.parameters, "apply", refuse)
    monkeypatch.setattr(Client, "wait_ready", miss_the_undo)
    said = terminal.ramet("service", "settings", "stubborn", "work_mem=128MB")
    assert (said.code, "The settings are as before" in said.err) == (1, True)


def test_programs_get_the_settings_also_without_a_wait(terminal: Terminal) -> None:
    terminal.made("service", "create", "hasty")
    found = terminal.made("service", "settings", "hasty", "work_mem=64MB", "--no-wait")
    assert "work_mem" in [one["name"] for one in found["settings"]]
