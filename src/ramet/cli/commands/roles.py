"""`ramet db create role`: roles of a service's database, read-only ones too."""

import sys
from dataclasses import dataclass
from pathlib import Path

import click
import psycopg
from psycopg import sql

from ramet.cli.connection import connection_string
from ramet.cli.ui.options import credentials_option, find_service, open_client, service_argument
from ramet.cli.ui.output import say
from ramet.cli.user_files.passwords import find_password, passwords_path
from ramet.endpoints import ADMIN, address
from ramet.errors import Failed, NotFound
from ramet.model.credentials import Secret, new_password, scram_verifier


@dataclass(frozen=True)
class NewRole:
    """A role that is to be, which can log in."""

    name: str
    password: Secret
    read_only: bool = False
    parents: tuple[str, ...] = ()
    statement_timeout: str | None = None


@click.group("create")
def create_group() -> None:
    """Create things in the databases of services."""


@create_group.command("role")
@service_argument
@click.argument("name")
@click.option("--read-only", is_flag=True, help="It can read what the admin can, now and later, and cannot write.")
@click.option("--from", "parents", multiple=True, metavar="ROLE", help="Give it the rights of ROLE; may be repeated.")
@click.option("--statement-timeout", metavar="TIME", help="End its statements after TIME, such as 30s.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read its password from standard input, one line.")
@credentials_option
def create_role(
    service: str,
    name: str,
    read_only: bool,
    parents: tuple[str, ...],
    statement_timeout: str | None,
    from_stdin: bool,
    credentials_file: Path | None,
) -> None:
    """Create a role that can log in, and print its password. What a read-only role cannot do: docs/read-only.md.

    \b
    Examples:
      ramet db create role shop reporting --read-only --statement-timeout 30s
      pass show app | ramet db create role shop app --from tsdbadmin --stdin
    """
    with open_client(credentials_file) as client:
        endpoint = find_service(client, service).endpoint
    password = Secret(sys.stdin.readline().rstrip("\r\n")) if from_stdin else new_password()
    admin = find_password(endpoint)
    if admin is None:
        raise NotFound(
            "PASSWORD_NOT_KEPT",
            f"The admin's password of {address(endpoint.host, endpoint.port)} is not in {passwords_path()}",
            "Set another one with 'ramet service update-password'.",
        )
    wanted = NewRole(name, password, read_only, parents, statement_timeout)
    make_role(connection_string(endpoint, admin), wanted)
    say(f"Role {name} is created{' and reads only' if read_only else ''}.", "green")
    if not from_stdin:
        click.echo(password.reveal())


def make_role(uri: str, wanted: NewRole) -> None:
    """Make a role in one transaction. Raises Failed with the server's reason, which never quotes the verifier."""
    try:
        with psycopg.connect(uri) as connection:
            for statement in _statements(wanted):
                connection.execute(statement)
    except psycopg.Error as error:
        raise Failed("ROLE_NOT_CREATED", f"Role {wanted.name!r} was not created", _reason(error)) from error


def _reason(error: psycopg.Error) -> str:
    parts = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    return " ".join(part for part in parts if part) or ("" if error.sqlstate else str(error).strip())


def _statements(new: NewRole) -> list[sql.Composed]:
    role, verifier = sql.Identifier(new.name), sql.Literal(scram_verifier(new.password).reveal())
    if new.read_only:
        wanted = [
            sql.SQL("SELECT timescale_functions.create_bare_readonly_role({}, {})").format(new.name, verifier),
            sql.SQL("SELECT timescale_functions.grant_tsdbadmin_to_role({})").format(new.name),
        ]
    else:
        wanted = [sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, verifier)]
    # Whoever reads only reads what the admin can, without being its member.
    parents = [parent for parent in new.parents if not (new.read_only and parent == ADMIN)]
    wanted += [sql.SQL("GRANT {} TO {}").format(sql.Identifier(parent), role) for parent in parents]
    if new.statement_timeout is not None:
        setting = sql.SQL("ALTER ROLE {} SET statement_timeout = {}")
        wanted.append(setting.format(role, sql.Literal(new.statement_timeout)))
    return wanted
