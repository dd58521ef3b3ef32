"""`ramet db changes`: how the schema of a fork differs from the one that its parent has now."""

import difflib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC

import click
import psycopg

from ramet.api.schemas.services import Service
from ramet.cli.connection import connect, connection_string, log_in, read_any_text
from ramet.cli.ui.exit_codes import in_own_words
from ramet.cli.ui.options import service_command
from ramet.cli.ui.output import say
from ramet.cli.ui.service_views import shown_endpoint
from ramet.client import ApiError, Client
from ramet.errors import Failed, Invalid
from ramet.kits.run import interruptible
from ramet.kits.throwaway import throwaway_fork
from ramet.model.login import LEAST_SECONDS
from ramet.workbench.schema import lines_of, read_schema

_CONTEXT_LINES = 3
_LIMITS = ("KEY_LIMIT", "PROJECT_LIMIT")
_MOST_CHARACTERS = 50_000  # of a comment; GitHub accepts 65,536


@dataclass(frozen=True)
class _Parent:
    """What a fork of the parent needs; a forker does not see more of it."""

    service_id: str
    name: str


@service_command("changes")
@click.option("--markdown", is_flag=True, help="Print a comment for a pull request: the fork, and what has changed.")
def show_changes(client: Client, service: Service, markdown: bool) -> None:
    """Show how the schema of a fork differs from the one that its parent has now: tables, views, functions and more.

    The parent is not connected to: a fork of it is compared, which is deleted at once. So the key of a forker is
    enough. Owners and privileges are not compared. Where a limit allows no more forks, --markdown prints the comment
    without the changes.

    \b
    Examples:
      ramet db changes preview-42
      ramet db changes preview-42 --markdown
    """
    if service.forked_from is None:
        raise Invalid("NOT_A_FORK", f"{service.name} is not a fork, so that it has no parent", "Name a fork.")
    parent = _Parent(service.forked_from.service_id, service.metadata.parent_name or service.name)
    after = _schema_of(client, service)
    try:
        with interruptible(), throwaway_fork(client, parent) as fresh:
            before = _schema_of(client, fresh.service)
    except ApiError as error:
        if not markdown or error.code not in _LIMITS:
            raise
        say(f"The schemas were not compared: {in_own_words(str(error))}", "yellow")
        click.echo(_comment_without_changes(service, parent.name, error.code))
        return
    changed = list(difflib.unified_diff(before, after, parent.name, service.name, lineterm="", n=_CONTEXT_LINES))
    if markdown or changed:
        click.echo(_comment(service, parent.name, changed) if markdown else "\n".join(changed))
    else:
        say(f"The schema of {service.name} is that of {parent.name}.")


def _schema_of(client: Client, service: Service) -> list[str]:
    made = log_in(client, service, LEAST_SECONDS, read_only=True)
    try:
        uri = connection_string(service.endpoint, made.password, made.role)
        with closing(connect(uri, connect_timeout=30)) as session:
            read_any_text(session)
            session.execute("SET search_path = pg_catalog")
            return list(lines_of(read_schema(session)))
    except psycopg.Error as error:
        raise Failed("SCHEMA_NOT_READ", f"The schema of {service.name} could not be read: {error}") from error


def _comment(service: Service, parent: str, changed: Sequence[str]) -> str:
    lines = _introduction(service, parent)
    if not changed:
        return "\n".join([*lines, f"Its schema is that of `{parent}`."])
    text = "\n".join(changed)
    cut = [] if len(text) <= _MOST_CHARACTERS else ["", f"There is more: `ramet db changes {service.name}`"]
    # A fence of tildes: definitions may contain backticks, and begin no line.
    lines += [f"What differs from the schema of `{parent}`:", "", "~~~~~~diff", text[:_MOST_CHARACTERS], "~~~~~~", *cut]
    return "\n".join(lines)


def _comment_without_changes(service: Service, parent: str, code: str) -> str:
    why = f"a limit of the key or of the project allows no fork of `{parent}` to compare it with (`{code}`)"
    return "\n".join([*_introduction(service, parent), f"Its schema was not compared with that of `{parent}`: {why}."])


def _introduction(service: Service, parent: str) -> list[str]:
    until = service.metadata.expires_at
    return [
        f"**`{service.name}`** is a fork of `{parent}` for this change, at `{shown_endpoint(service)}`"
        + ("." if until is None else f", until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC."),
        "",
        f'With a key of your own: `psql "$(ramet db login {service.name})"`',
        "",
    ]
