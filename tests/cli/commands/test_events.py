"""`ramet events` and `ramet webhook`."""

import os
import subprocess
import sys

import yaml

from harness.waiting import eventually
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_events_are_listed_and_webhooks_managed(terminal: Terminal, world: World) -> None:
    made = terminal.made("service", "create", "shop")
    eventually(lambda: terminal.made("events", "shop"))
    (ready,) = terminal.made("events", "shop", "--type", "service.ready")
    assert (ready["type"], ready["service_id"]) == ("service.ready", made["service_id"])
    assert "service.ready" in terminal.ramet("events").out
    webhook = terminal.made("webhook", "create", "https://127.0.0.1:1/", "--type", "service.failed")
    assert webhook["secret"].startswith("whsec_")
    assert webhook["secret"] not in terminal.ramet("webhook", "list").out
    assert terminal.made("webhook", "list")[0]["types"] == ["service.failed"]
    changed = terminal.made("webhook", "update", webhook["id"], "--all-types", "--disable")
    assert (changed["types"], changed["enabled"]) == ([], False)
    assert terminal.made("webhook", "update", webhook["id"], "--enable")["enabled"] is True
    rotated = terminal.made("webhook", "rotate-secret", webhook["id"], "--overlap", "2h")
    assert rotated["secret"] != webhook["secret"]
    test = terminal.made("webhook", "test", webhook["id"])
    world.runtime.dispatcher.deliver_due()
    (delivery,) = terminal.made("webhook", "deliveries", webhook["id"])
    assert (delivery["id"], delivery["status"], delivery["attempts"]) == (test["id"], "PENDING", 1)
    assert "no public address" in delivery["error"]
    assert terminal.ramet("webhook", "redeliver", webhook["id"], delivery["id"]).code == 0
    assert terminal.made("webhook", "deliveries", webhook["id"])[0]["attempts"] == 0
    assert terminal.ramet("webhook", "delete", webhook["id"]).code == 0
    assert terminal.made("webhook", "list") == []


def test_each_event_is_written_when_it_is_known(terminal: Terminal) -> None:
    terminal.made("service", "create", "seen")
    eventually(lambda: terminal.made("events", "seen", "--type", "service.ready"))
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "ramet", "events", "seen", "--type", "service.ready", "--follow", "-o", "yaml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
        finally:
            process.kill()
    assert (lines[0], yaml.safe_load(lines[1]).keys()) == ("---\n", {"id"})
