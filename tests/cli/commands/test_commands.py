"""The command line as a whole: help, completion, settings, unknown words."""

from collections.abc import Iterator

import click
import pytest

from ramet.cli.commands import cli
from ramet.settings import describe_settings
from tests.cli.terminal import Terminal
from tests.cli.world import World


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from _commands(found, (*path, name))


COMMANDS = dict(_commands(cli))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example(stranger: Terminal, path: tuple[str, ...]) -> None:
    said = stranger.ramet(*path, "--help")
    assert said.code == 0
    if not isinstance(COMMANDS[path], click.Group):
        assert "Example" in said.out
        assert f"ramet {' '.join(path)}" in said.out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_has_a_help_text(path: tuple[str, ...]) -> None:
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize(
    "words", [["nonsense"], ["service", "nonsense"], ["service", "list", "--nonsense"], ["service"]]
)
def test_unknown_commands_and_options_exit_with_3(stranger: Terminal, words: list[str]) -> None:
    assert stranger.ramet(*words).code == 3


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["servise"], "'service'"),
        (["list"], "'ramet service list'"),
        (["status"], "'ramet ls'"),
        (["connect", "shop"], "'ramet db connect'"),
        (["service", "frok"], "'fork'"),
        (["key", "crate"], "'create'"),
        (["service", "list", "--wach"], "'--watch'"),
    ],
)
def test_an_unknown_word_is_answered_with_what_is_like_it(stranger: Terminal, words: list[str], meant: str) -> None:
    said = stranger.ramet(*words)
    assert said.code == 3
    assert meant in said.err.partition("Did you mean")[2]


def test_an_unknown_name_is_answered_with_one_that_is_like_it(terminal: Terminal) -> None:
    terminal.made("service", "create", "warehouse")
    said = terminal.ramet("service", "get", "warehuose")
    assert (said.code, "Did you mean 'warehouse'?" in said.err) == (6, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["service", "create", "q", "--cpu", "1000"], "--cpu and --memory must both be"),
        (["service", "create", "q", "--cpu", "1000"], "Give both, for example --cpu 500, --memory 2."),
        (["service", "create", "q", "--cpu", "3", "--memory", "1"], "--cpu must be a whole number from 10 or 'shared'"),
        (["service", "create", "q", "--pg-version", "9"], "--pg-version must be"),
        (["fork", "mistaken", "--to", "5x"], "--to '5x' cannot be read as a timestamp: Use a time ago such as 5m"),
        (
            ["service", "logs", "mistaken", "--since", "5x"],
            "--since '5x' cannot be read as a timestamp: Use a time ago",
        ),
        (["fork", "mistaken", "--to", "5m"], "to go back 300 s, wait "),
    ],
)
def test_an_error_says_what_to_type(terminal: Terminal, words: list[str], said: str) -> None:
    terminal.made("service", "create", "mistaken", "--if-not-exists")
    answer = terminal.ramet(*words)
    assert (answer.code, said in answer.err) == (3, True), answer.err


def test_without_a_command_ramet_greets_and_says_what_to_do_next(
    stranger: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = stranger.ramet()
    assert (said.code, "ramet up" in said.out, "ramet service create shop" in said.out) == (0, True, True)
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    made = stranger.made("service", "create", "greets")
    said = stranger.ramet()
    assert (said.code, "READY" in said.out) == (0, True)
    assert f"ramet fork {made['name']}" in said.out
    monkeypatch.setenv("RAMET_BASE_URL", "http://127.0.0.1:9/public/api/v1")
    said = stranger.ramet()
    assert (said.code, "No Ramet answers at http://127.0.0.1:9" in said.out, "ramet up" in said.out) == (0, True, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(stranger: Terminal, shell: str) -> None:
    said = stranger.ramet("completion", shell)
    assert "_RAMET_COMPLETE" in said.out


def test_services_are_completed_by_name_and_id(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.cli.ui.options._COMPLETION_SECONDS", 60.0)
    made = terminal.made("service", "create", "completed")
    command = COMMANDS["service", "get"]
    with command.make_context("get", [""], resilient_parsing=True) as context:
        found = [item.value for item in command.params[0].shell_complete(context, "compl")]
        assert found == ["completed"]
        found = [item.value for item in command.params[0].shell_complete(context, made["service_id"][:5])]
        assert found == [made["service_id"]]
        monkeypatch.setenv("RAMET_BASE_URL", "http://127.0.0.1:9")
        assert command.params[0].shell_complete(context, "compl") == []


def test_every_setting_is_listed(stranger: Terminal) -> None:
    assert {row["variable"] for row in stranger.made("settings")} == {
        one.variable for one in describe_settings().values()
    }


def test_an_invalid_setting_exits_with_3_and_names_its_variable(
    stranger: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMET_PORT_RANGE", "all")
    said = stranger.ramet("doctor")
    assert said.code == 3
    assert "RAMET_PORT_RANGE" in said.err


def test_doctor_describes_the_host_without_changing_it(stranger: Terminal) -> None:
    shown = stranger.made("doctor")
    assert {"ramet", "data", "process", "storage", "postgresql", "tls", "limits", "poolers"} <= set(shown)
    assert "pooler" not in shown
    assert shown["process"] == "Not running."
    assert not (stranger.home / "data").exists()


def test_down_without_a_data_directory_exits_with_6(stranger: Terminal) -> None:
    assert stranger.ramet("down").code == 6
    assert not (stranger.home / "data").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("service", "metrics", "NAME", "ramet_connections", "--since", "800000d"), "longer than 365000 days"),
        (("service", "create", "x", "--ttl", f"{'9' * 400}s"), "longer than 365000 days"),
        (("service", "create", "b\udcff"), "not UTF-8"),
        (("key", "revoke", "b\udcff"), "not UTF-8"),
        (("key", "create", "--expires-in", "3000000d"), "longer than 365000 days"),
    ],
    ids=lambda one: ascii(one[1] if isinstance(one, tuple) else one),
)
def test_odd_values_are_refused_in_a_sentence(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    service_id = terminal.made("service", "create", "plain", "--allow-duplicate-name")["service_id"]
    found = terminal.ramet(*(service_id if word == "NAME" else word for word in words))
    assert (found.code, said in found.err, "BUG" in found.err) == (3, True, False)
