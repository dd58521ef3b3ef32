"""Restores in place, resets, checkpoints and rewinds on the command line."""

import pytest

from ramet.model.timestamps import rfc3339
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_a_service_is_restored_and_that_is_undone(terminal: Terminal, world: World) -> None:
    service = terminal.made("service", "create", "wiki")
    target = rfc3339(world.backend.commit(service["service_id"], "one").committed_at)
    world.backend.commit(service["service_id"], "mistake")
    found = terminal.made("service", "restore", "wiki", "--to", target, "--yes")
    assert (found["status"], found["verb"]) == ("SUCCEEDED", "restore")
    assert world.backend.values(service["service_id"]) == ["one"]
    listed = terminal.ramet("service", "restores", "wiki").out
    assert found["previous_service_id"] in listed
    undone = terminal.ramet("service", "restore", "wiki", "--from", found["previous_service_id"], "--yes")
    assert (undone.code, "state before" in undone.out) == (0, True)
    assert world.backend.values(service["service_id"]) == ["one", "mistake"]


def test_a_fork_is_rewound_and_reset(terminal: Terminal, world: World) -> None:
    parent = terminal.made("service", "create", "source")
    fork = terminal.made("service", "fork", "source", "--now", "--name", "rewound")
    assert terminal.ramet("service", "checkpoint", "rewound", "start").code == 0
    world.backend.commit(fork["service_id"], "tried")
    assert terminal.made("service", "rewind", "rewound", "start", "--yes")["status"] == "SUCCEEDED"
    assert world.backend.values(fork["service_id"]) == []
    world.backend.commit(parent["service_id"], "one")
    assert terminal.made("service", "reset", "rewound", "--yes")["verb"] == "reset"
    assert world.backend.values(fork["service_id"]) == ["one"]


@pytest.mark.parametrize(
    "options",
    [
        ("restore", "NAME"),
        ("restore", "NAME", "--to", "1h", "--snapshot", "good"),
        ("restore", "NAME", "--to", "1h", "--confirm", "other"),
        ("reset", "NAME", "--now", "--last-snapshot"),
    ],
)
def test_wrong_options_are_refused(terminal: Terminal, options: tuple[str, ...]) -> None:
    service_id = terminal.made("service", "create", "refused", "--allow-duplicate-name")["service_id"]
    words = [service_id if word == "NAME" else word for word in options]
    assert terminal.ramet("service", *words).code == 3


def test_prod_needs_its_name(terminal: Terminal) -> None:
    terminal.made("service", "create", "lively", "--environment", "PROD")
    refused = terminal.ramet("service", "restore", "lively", "--to", "0s", "--yes")
    assert (refused.code, "--confirm 'lively'" in refused.err) == (3, True)
