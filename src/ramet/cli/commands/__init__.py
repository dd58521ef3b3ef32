"""The command `ramet`: its commands and groups, each imported when it is needed, and its exit code."""

import gc
import importlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from click.exceptions import NoSuchCommand

from ramet import __version__
from ramet.cli.ui.exit_codes import run

# A module is imported when one of its commands is used: `ramet service list` needs no server code.
_SERVICE_COMMANDS = {
    "archive": "commands.archive:show_archive",
    "checkpoint": "commands.restores:checkpoint",
    "create": "commands.creations:create_service",
    "delete": "commands.services:delete_services",
    "extend": "commands.life_spans:extend_service",
    "follow": "commands.following:follow_service",
    "fork": "commands.forks:fork_service",
    "get": "commands.services:get_service",
    "import": "commands.imports:import_service",
    "label": "commands.life_spans:label",
    "list": "commands.services:list_services",
    "logs": "commands.logs:show_logs",
    "metrics": "commands.metrics:show_metrics",
    "move": "commands.moves:move",
    "moves": "commands.moves:list_moves",
    "optimize": "commands.service_changes:optimize",
    "pooler": "commands.poolers:pooler_group",
    "promote": "commands.following:promote_service",
    "protect": "commands.life_spans:protect",
    "rename": "commands.service_changes:rename",
    "replica": "commands.replica_sets:replica_group",
    "replication": "commands.replication:show_replication",
    "report": "commands.fork_reports:show_report",
    "reset": "commands.restores:reset",
    "resize": "commands.service_changes:resize",
    "restore": "commands.restores:restore",
    "restores": "commands.restores:list_restores",
    "rewind": "commands.restores:rewind",
    "set-environment": "commands.service_changes:set_environment",
    "set-ha": "commands.service_changes:set_ha",
    "set-wal-level": "commands.replication:set_wal_level",
    "settings": "commands.settings:service_settings",
    "sleep": "commands.life_spans:sleep_service",
    "snapshot": "commands.restore:take_snapshot",
    "snapshots": "commands.restore:list_snapshots",
    "start": "commands.services:start_service",
    "stop": "commands.services:stop_service",
    "unprotect": "commands.life_spans:unprotect",
    "update-password": "commands.service_changes:update_password",
    "upgrade": "commands.upgrades:upgrade",
    "upgrades": "commands.upgrades:list_upgrades",
    "wait": "commands.services:wait_for_service",
    "warm": "commands.warm_forks:warm_forks",
    "window": "commands.restore:show_window",
}
_DATABASE_COMMANDS = {
    "activity": "commands.insight:show_activity",
    "changes": "ramet.kits.changes:show_changes",
    "connect": "commands.databases:connect",
    "connection-string": "commands.databases:show_connection_string",
    "create": "commands.roles:create_group",
    "dump": "commands.dumps:dump_database",
    "login": "commands.logins:login",
    "logins": "commands.logins:list_logins",
    "schema": "commands.schema:show_schema",
    "tables": "commands.insight:show_tables",
    "top": "commands.insight:show_top",
    "upgrade-extension": "commands.extensions:upgrade_extension",
    "url": "commands.databases:show_connection_string",
}
_COMMANDS = {
    "fork": _SERVICE_COMMANDS["fork"],
    "ls": _SERVICE_COMMANDS["list"],
    "psql": _DATABASE_COMMANDS["connect"],
    "wait": _SERVICE_COMMANDS["wait"],
    "run": "ramet.kits.run:run",
    "mcp": "ramet.kits.mcp.command:mcp",
    "up": "host.commands:up",
    "serve": "host.commands:serve_only",
    "worker": "host.commands:work_only",
    "down": "host.commands:down",
    "console": "commands.console:console",
    "open": "commands.console:open_console",
    "ca": "commands.authority:show_authority",
    "doctor": "host.doctor:doctor",
    "host": "host.address:host_group",
    "backup": "host.backup:backup",
    "archive": "host.archive_key:archive_group",
    "recover": "host.recover:recover",
    "settings": "host.doctor:show_settings",
    "service": "commands:service_group",
    "snapshot": "commands.snapshots:snapshot_group",
    "db": "commands:database_group",
    "operations": "commands.operations:list_operations",
    "events": "commands.events:list_events",
    "webhook": "commands.events:webhook_group",
    "audit": "commands.audit:audit_group",
    "project": "commands.projects:project_group",
    "key": "commands.keys:key_group",
    "config": "commands.config:config_group",
    "completion": "commands.completion:completion",
}
# What other command lines call it.
_OTHER_WORDS = {"status": "ls", "ps": "ls", "clone": "fork", "branch": "fork"}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed; `table` has their modules and names."""

    def __init__(self, *arguments: Any, table: Mapping[str, str], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._table = table

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of words of the command line; help is printed here."""
        with _until_the_reader_ends():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _until_the_reader_ends():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with that name, or None."""
        if cmd_name not in self._table:
            return None
        module, name = self._table[cmd_name].split(":")
        module = module if module.startswith("ramet.") else f"ramet.cli.{module}"
        found: click.Command = getattr(importlib.import_module(module), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words begin with. Raises NoSuchCommand, with what is like it."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            name, known = error.command_name, list(self._table)
            groups = {"service": _SERVICE_COMMANDS, "db": _DATABASE_COMMANDS} if self._table is _COMMANDS else {}
            for group in (group for group, table in groups.items() if name in table):
                message = f"No such command {name!r}. Did you mean 'ramet {group} {name}'?"
                raise NoSuchCommand(name, message, ctx=ctx) from error
            if self._table is _COMMANDS and name in _OTHER_WORDS:
                message = f"No such command {name!r}. Did you mean 'ramet {_OTHER_WORDS[name]}'?"
                raise NoSuchCommand(name, message, ctx=ctx) from error
            raise NoSuchCommand(name, possibilities=known, ctx=ctx) from error


@contextmanager
def _until_the_reader_ends() -> Iterator[None]:
    """End the command without an error when the reader of its output has ended; click would exit with 1."""
    try:
        yield
    except BrokenPipeError as error:
        raise click.exceptions.Exit(0) from error


@click.group("service", cls=LazyGroup, table=_SERVICE_COMMANDS)
def service_group() -> None:
    """Create, fork, list and change services."""


@click.group("db", cls=LazyGroup, table=_DATABASE_COMMANDS)
def database_group() -> None:
    """Connect to the databases of services."""


@click.group(
    cls=LazyGroup,
    table=_COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, message="ramet %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run PostgreSQL services on your own hosts, and fork them as fast as a server starts.

    \b
    To begin:
      ramet up                                # in one terminal
      ramet service create shop               # in another
      ramet fork shop
      ramet ls
      ramet psql shop-fork
    """
    if ctx.invoked_subcommand is None:
        from ramet.cli.commands.greeting import greet

        greet()


def main() -> None:
    """Run the command line."""
    _open_missing_streams()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")  # not every encoding has what tables are drawn with
    code = run(lambda: cli.main(prog_name="ramet", standalone_mode=False))
    gc.freeze()  # nothing is looked through at the end
    sys.exit(code)


def _open_missing_streams() -> None:
    """Open what a process may begin without: output fails only where there is some, and messages go nowhere."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # each write gives EBADF
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
