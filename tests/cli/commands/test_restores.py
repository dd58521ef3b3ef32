"""Restores in place, resets, checkpoints and rewinds on the command line."""

from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from ramet.client import Client
from ramet.errors import Failed
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


@pytest.mark.parametrize("verb", ["restore", "reset"])
def test_a_relative_time_is_the_one_in_the_question(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    class Clock(datetime):
        """It goes on by a minute while the user thinks."""

        now_is = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)

        @classmethod
        def now(cls, _: tzinfo | None = None) -> datetime:  # type: ignore[override]
            cls.now_is += timedelta(minutes=1)
            return cls.now_is

    asked: list[str] = []
    requested: list[str] = []

    def answer(question: str, **_: object) -> bool:
        asked.append(question)
        return bool(Clock.now())

    def request(*_: object, target_time: str, **__: object) -> None:
        requested.append(target_time)
        raise Failed("NO", "Enough")

    terminal.made("service", "create", f"thought-{verb}")
    monkeypatch.setattr("ramet.cli.commands.restores.datetime", Clock)
    monkeypatch.setattr("click.confirm", answer)
    monkeypatch.setattr(Client, f"{verb}_service", request)
    assert terminal.ramet("service", verb, f"thought-{verb}", "--to", "10 minutes ago").code == 1
    target = "2026-01-15T10:21:00.000000Z"
    assert asked[0].endswith(f"It gets the data as of {target}.")
    assert requested == [target]


def test_prod_needs_its_name(terminal: Terminal) -> None:
    terminal.made("service", "create", "lively", "--environment", "PROD")
    refused = terminal.ramet("service", "restore", "lively", "--to", "0s", "--yes")
    assert (refused.code, "--confirm 'lively'" in refused.err) == (3, True)


@pytest.mark.parametrize(
    ("words", "wait", "said"),
    [
        (
            ("service", "restore", "NAME", "--snapshot", "good", "--yes"),
            "wait_restored",
            "The restore continues. To see its status: ramet service restores ID",
        ),
        (
            ("service", "rewind", "NAME", "good", "--yes"),
            "wait_restored",
            "The rewind continues. To see its status: ramet service restores ID",
        ),
        (
            ("service", "checkpoint", "NAME", "next"),
            "wait_checkpoint",
            "Taking checkpoint next continues. To see its status: ramet service snapshots ID",
        ),
        (
            ("snapshot", "create", "NAME", "other"),
            "wait_snapshot",
            "Taking snapshot other continues. To see its status: ramet service snapshots ID",
        ),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else "",
)
def test_an_interrupt_says_what_continues(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], wait: str, said: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    service_id = terminal.made("service", "create", "long", "--allow-duplicate-name")["service_id"]
    assert terminal.ramet("service", "checkpoint", service_id, "good").code == 0
    monkeypatch.setattr(Client, wait, interrupted)
    found = terminal.ramet(*(service_id if word == "NAME" else word for word in words))
    assert (found.code, found.err.strip()) == (130, said.replace("ID", service_id))
