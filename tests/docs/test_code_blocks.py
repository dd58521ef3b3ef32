"""Every block of code on every page: commands exist with their options, Python compiles, JSON, YAML and TOML parse.

Nothing is run here. The pages whose commands run as they stand are README, client.md, survive-loss.md and upgrading.md.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping

import click
import pytest
import yaml

from ramet.cli.commands import cli
from tests.docs.pages import ROOT, Block, blocks, pages, spans

_SHELL = frozenset({"sh", "shell", "bash", "console"})
_WITHOUT_GRAMMAR = frozenset({"caddyfile", "markdown", "mermaid", "nginx", "sql", "text"})
_TIMES = r"(?:[\d*]+\s+){5}"  # of a crontab
_COMMAND = re.compile(rf"""(?:^|[(";|&]|\s--)\s*(?:{_TIMES})?(?:\w+=\S*\s+)*ramet(?=\s|$)""")
# Synopses: they show which parts a command has, and are no commands themselves.
_SYNOPSES = frozenset({"docs/cli.md"})
_OF_THE_PAST = "CHANGELOG.md"  # it tells of what was


def _all() -> list[Block]:
    return [block for page in pages() for block in blocks(page)]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a script, those joined that a backslash continues."""
    yield from text.replace("\\\n", " ").splitlines()


def commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each `ramet` command in a line of a script, without redirections and what follows a pipe."""
    for start in _COMMAND.finditer(line):
        yield from _words(line[start.end() :])


def _words(rest: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(rest, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set("();<>|&"):
                break
            words.append(word)
    except ValueError:  # the quotation around the command ends here
        return (yield from _words(rest.rpartition('"')[0].rpartition(")")[0]))
    yield words


def problem(words: list[str]) -> str:
    """Return what is wrong with a command, without running any of it; "" for nothing."""
    context, rest = click.Context(cli, info_name="ramet"), words
    try:
        while True:
            command = context.command
            values, rest, _ = command.make_parser(context).parse_args(list(rest))
            if not isinstance(command, click.Group):
                return _problem_of_arguments(context, values, rest)
            if not rest:
                return ""
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            context = click.Context(found, info_name=name, parent=context)
    except click.UsageError as error:
        return error.format_message()


def _problem_of_arguments(context: click.Context, values: Mapping[str, object], rest: list[str]) -> str:
    command = context.command
    if rest and not context.allow_extra_args:
        return f"too many arguments: {rest}"
    for parameter in command.params:
        given = values.get(parameter.name or "")
        is_there = isinstance(given, str | list | tuple) and bool(given)
        if parameter.required and not is_there and not parameter.envvar:
            return f"{parameter.human_readable_name} is missing"
        if isinstance(parameter.type, click.Choice) and isinstance(given, str):
            parameter.type.convert(given, parameter, context)
    return ""


def _problems_of_shell(block: Block) -> list[str]:
    found = [(words, problem(words)) for line in _lines(block.text) for words in commands(_without_comment(line))]
    scripts = [word for word in re.findall(r"(?<![\w/.-])script/\w+", block.text) if not (ROOT / word).exists()]
    return [f"ramet {shlex.join(words)}: {wrong}" for words, wrong in found if wrong] + scripts


def _without_comment(line: str) -> str:
    return re.split(r"(?:^|\s)#(?:\s|$)", line)[0]


def _check_yaml(text: str) -> None:
    list(yaml.safe_load_all(text))


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,
    "toml": tomllib.loads,
    "yaml": _check_yaml,
}


def test_every_command_of_the_pages_exists_with_its_options() -> None:
    scripts = [block for block in _all() if block.language in _SHELL or not block.language]
    scripts = [block for block in scripts if block.language or block.page not in _SYNOPSES]
    assert sum(1 for block in scripts for line in _lines(block.text) for _ in commands(line)) > 150
    found = {block.place: _problems_of_shell(block) for block in scripts}
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("page", [page for page in pages() if page != _OF_THE_PAST])
def test_every_command_in_a_sentence_exists_with_its_options(page: str) -> None:
    """A sentence may leave out what a command needs, but not name one that is not there."""
    named = [shlex.split(span)[1:] for span in spans(page) if re.match(r"ramet [a-z-]", span)]
    found = {shlex.join(words): problem(words) for words in named}
    assert {command: wrong for command, wrong in found.items() if wrong.startswith("No such")} == {}


def test_every_other_block_parses() -> None:
    wrong = []
    for block in _all():
        if parse := _PARSERS.get(block.language):
            try:
                parse(block.text)
            except (ValueError, SyntaxError, yaml.YAMLError) as error:
                wrong.append(f"{block.place}: {error}")
    assert wrong == []


def test_every_language_is_known_here() -> None:
    known = {"", *_SHELL, *_WITHOUT_GRAMMAR, *_PARSERS}
    assert [block.place for block in _all() if block.language not in known] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ramet service fork shop --now --bogus", "--bogus"),
        ("ramet service frok shop", "frok"),
        ("ramet service rename shop", "missing"),
        ("ramet fork shop again", "too many"),
        ("ramet fork shop --environment TEST", "TEST"),
        ('psql "$(ramet db login shop --fro 8h)"', "--fro"),
    ],
)
def test_a_wrong_command_is_found(line: str, expected: str) -> None:
    [words] = commands(line)
    assert expected in problem(words)


def test_words_end_with_the_command() -> None:
    assert list(commands("ramet ca --data /var/lib/ramet > ca.crt")) == [["ca", "--data", "/var/lib/ramet"]]
    assert list(commands("A=b ramet up & ramet ls | cat")) == [["up"], ["ls"]]
    assert list(commands("pip install 'ramet[mcp]'")) == []
