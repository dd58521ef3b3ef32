"""docs/cli.md, generated from the commands: `python -m ramet.cli.reference` prints it."""

import inspect
import sys
from collections.abc import Iterator

import click

from ramet.cli.commands import cli
from ramet.settings import describe_settings

_HEAD = """# The command line

Generated from the code by `script/reference`; do not edit.

Results are printed to standard output, everything else to standard error. Exit codes: 0 success; 1 failure; 2 the wait
timed out; 3 invalid request, option or argument; 4 no valid key; 5 not allowed; 6 not found; 130 interrupted.

A SERVICE is an id, or a name that only one service has. A command takes server, project and key from
`--credentials-file` (or `RAMET_CREDENTIALS_FILE`), else from `RAMET_BASE_URL`, `RAMET_PROJECT_ID`, `RAMET_PUBLIC_KEY`
and `RAMET_SECRET_KEY`, else from the configuration that `ramet up` or `ramet config set` wrote
(`~/.config/ramet/credentials.json`).

Short forms: {short_forms}.
"""


def reference() -> str:
    """Return the whole page."""
    every = list(commands(cli))
    whole = {id(command): path for path, command in every if len(path) > len(("ramet", "word"))}
    short = [(path, whole[id(one)]) for path, one in every if len(path) < len(whole.get(id(one), ()))]
    sections = (_section(path, command) for path, command in every if (path, whole.get(id(command))) not in short)
    return "\n".join([_HEAD.format(short_forms=", ".join(map(_short_form, short))), *sections, _settings()])


def commands(group: click.Group, path: tuple[str, ...] = ("ramet",)) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return every command that is not a group, with its words, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        elif found is not None and not found.hidden:
            yield (*path, name), found


def _short_form(words: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    return " for ".join(f"`{' '.join(path)}`" for path in words)


def _section(path: tuple[str, ...], command: click.Command) -> str:
    words = " ".join(path)
    context = click.Context(command, info_name=words)
    usage = " ".join((words, *command.collect_usage_pieces(context)))
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    lines = [f"## {words}", "", text.strip(), "", f"    {usage}", ""]
    if examples:
        lines += ["```sh", *(line.strip() for line in examples.splitlines()[1:]), "```", ""]
    given = [one for one in command.params if isinstance(one, click.Option)]
    options = [record for one in given if (record := one.get_help_record(context)) is not None]
    if options:
        lines += ["| option | meaning |", "|---|---|", *(_row(*option) for option in options), ""]
    return "\n".join(lines)


def _settings() -> str:
    rows = [f"| `{name}` | {value} | {meaning} |" for name, value, meaning in describe_settings().values()]
    return "\n".join(["## Settings", "", "| variable | default | meaning |", "|---|---|---|", *rows, ""])


def _row(option: str, meaning: str) -> str:
    escaped = meaning.replace("|", "\\|")
    return f"| `{option.replace('|', ' or ')}` | {escaped} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
