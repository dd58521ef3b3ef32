"""The command `ramet`: its commands and groups, each imported when it is needed, and its exit code."""

import importlib
import sys

import click

from ramet import __version__
from ramet.cli.ui.exit_codes import run

# A module is imported when one of its commands is used: `ramet service list` needs no server code.
_COMMANDS = {
    "up": "host.commands:up",
    "serve": "host.commands:serve_only",
    "worker": "host.commands:work_only",
    "down": "host.commands:down",
    "console": "commands.console:console",
    "doctor": "host.doctor:doctor",
    "backup": "host.backup:backup",
    "settings": "host.doctor:show_settings",
    "service": "commands.groups:service_group",
    "db": "commands.groups:database_group",
    "operations": "commands.operations:list_operations",
    "project": "commands.projects:project_group",
    "key": "commands.projects:key_group",
    "config": "commands.config:config_group",
    "completion": "commands.completion:completion",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with that name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name].split(":")
        found: click.Command = getattr(importlib.import_module(f"ramet.cli.{module}"), name)
        return found


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, message="ramet %(version)s")
def cli() -> None:
    """Run PostgreSQL services on your own hosts, and fork them as fast as a server starts.

    \b
    To begin:
      ramet up                                # in one terminal
      ramet service create shop               # in another
      ramet service fork shop --now
      ramet service list
      ramet db connect shop-fork
    """


def main() -> None:
    """Run the command line."""
    sys.exit(run(lambda: cli.main(prog_name="ramet", standalone_mode=False)))
