"""`ramet service warm`: forks that are made in advance."""

from tests.cli.terminal import Terminal


def test_forks_are_kept_shown_and_dropped(terminal: Terminal) -> None:
    terminal.made("service", "create", "stove")
    assert "none are kept now" in terminal.ramet("service", "warm", "stove").out
    kept = terminal.ramet("service", "warm", "stove", "--keep", "1", "--max-age", "5m", "-o", "json").data
    assert (kept["size"], kept["max_age_seconds"]) == (1, 300)
    assert "keeps 1" in terminal.ramet("service", "get", "stove").out
    assert "0 of 1" in terminal.ramet("service", "warm", "stove").out  # no duty is performed in this world
    assert terminal.made("service", "fork", "stove", "--max-age", "1m", "--name", "hot")["name"] == "hot"
    dropped = terminal.ramet("service", "warm", "stove", "--off", "-o", "json").data
    assert dropped["size"] == 0
    assert "even if it is forked often" in terminal.ramet("service", "warm", "stove").out
    assert "keeps" not in terminal.ramet("service", "get", "stove").out
    assert terminal.ramet("service", "warm", "stove", "--auto", "-o", "json").data["size"] == 0


def test_what_contradicts_itself_is_refused_in_the_words_of_the_command_line(terminal: Terminal) -> None:
    terminal.made("service", "create", "oven")
    for options in (
        ("--off", "--keep", "1"),
        ("--off", "--auto"),
        ("--max-age", "5m"),
        ("--keep", "21"),
        ("--keep", "1", "--max-age", "5s"),
    ):
        assert terminal.ramet("service", "warm", "oven", *options).code == 3
    refused = terminal.ramet("service", "fork", "oven", "--max-age", "1m", "--last-snapshot")
    assert "--max-age is allowed with --now only" in refused.err
